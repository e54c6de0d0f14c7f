"""Launches with named arguments and structures."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from neglm_cli.lm.cuda.gpu import Floats, Gpu, Grid, Ids, Int, Kernel, cuda


class Pair(NamedTuple):
    x: Floats
    factor: Int


class Twin(NamedTuple):
    x: Floats
    factor: Int


def _scale(pair: Pair, ids: Ids, out: Floats, size: Int) -> None:
    for i in range(cuda.grid(1), size, cuda.gridsize(1)):
        out[i] = pair.factor * pair.x[ids[i]]


SCALE = Kernel("scale", _scale, 4)


def arguments(gpu: Gpu) -> dict[str, Any]:
    return {
        "pair": Pair(gpu.upload(np.arange(3, dtype=np.float32)), 5), "ids": gpu.upload(np.array([2, 0, 1], np.int32)),
        "out": gpu.zeros(3), "size": 3,
    }  # fmt: skip


@pytest.mark.parametrize("grid", [1, (2,), Grid(1, threads=2)])
def test_in_any_order(gpu: Gpu, grid: Any) -> None:
    given = arguments(gpu)
    gpu.launch(SCALE, grid, **dict(reversed(given.items())))
    assert gpu.download(given["out"]).tolist() == [10, 0, 5]


def test_a_wrong_name(gpu: Gpu) -> None:
    given = arguments(gpu)
    given["output"] = given.pop("out")
    with pytest.raises(TypeError, match="scale takes pair, ids, out, size, not pair, ids, size, output"):
        gpu.launch(SCALE, 1, **given)


def test_a_missing_argument(gpu: Gpu) -> None:
    given = arguments(gpu)
    del given["size"]
    with pytest.raises(TypeError, match="scale takes"):
        gpu.launch(SCALE, 1, **given)


@pytest.mark.parametrize("wrong", [Twin, lambda *fields: fields])
def test_a_structure_of_another_class(gpu: Gpu, wrong: Any) -> None:
    given = arguments(gpu)
    given["pair"] = wrong(*given["pair"])
    with pytest.raises(TypeError, match=r"pair of scale is a (Twin|tuple), not a Pair"):
        gpu.launch(SCALE, 1, **given)
