"""A GPU trains and scores like the reference and the CPU, and either continues the other's training."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from neglm_cli.lm.cuda.device import CudaDevice
from neglm_cli.lm.cuda.gemm import Extent, MatrixView, TiledGemm
from neglm_cli.lm.cuda.gpu import IS_SIMULATED, Gpu, Kernel
from neglm_cli.lm.cuda.network import Kernels
from neglm_cli.lm.device import Device
from neglm_cli.settings.losses import LOSSES
from neglm_cli.settings.train_lm import Settings
from tests.lm.cuda.executors import SMALL_GEMMS, SMALL_STEPS, TurnTakingGpu
from tests.lm.making import END_OF_LINE, TINY, counts, device, materialize, minibatch, model_of, parameters
from tests.lm.test_device import VARIANTS, WORDS, compare, variant_of

LENGTHS = (None, 2, None)
QUICK = [
    "neglm",
    "neglm-b",
    "softmax",
    "shared by a batch",
    "reset",
    "exact adam",
    "weight decay, adam, tied",
    "one row",
    "tied",
    "tied, softmax",
    "all dropout",
    "average, tied",
]


def slow_except(quick: list[str], names: Iterable[str]) -> list[Any]:
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow_gpu) for name in names]


def on_gpu(gpu: Gpu, settings: Settings) -> CudaDevice:
    gemm = TiledGemm(gpu, SMALL_GEMMS, SMALL_GEMMS)
    made = CudaDevice(
        parameters(settings, WORDS), settings, counts(WORDS), END_OF_LINE, gpu, Kernels(gemm, SMALL_STEPS)
    )  # fmt: skip
    made.prepare_training()
    return made


@pytest.mark.parametrize("variant", slow_except(QUICK, VARIANTS))
def test_matches_the_reference(gpu: Gpu, variant: str) -> None:
    settings = variant_of(TINY, variant)
    compare(settings, on_gpu(gpu, settings), LENGTHS)


class NonCooperativeGpu(TurnTakingGpu):
    """A GPU that cannot run cooperative kernels, so that each time step is a launch."""

    def most_blocks(self, kernel: Kernel, threads: int, shared: int) -> int:
        return 0


@pytest.mark.skipif(not IS_SIMULATED, reason="a GPU determines the number of resident blocks")
@pytest.mark.parametrize("variant", slow_except(["reset"], ["reset", "neglm"]))
def test_a_launch_for_each_step(variant: str) -> None:
    settings = variant_of(TINY, variant)
    gpu = NonCooperativeGpu()
    compare(settings, on_gpu(gpu, settings), LENGTHS)
    assert {"small_step_forward", "small_step_backward"} <= set(gpu.launched)
    assert not {"forward", "backward"} & set(gpu.launched)


@pytest.mark.parametrize("variant", slow_except(["softmax"], ["softmax", "nce"]))
def test_words_in_several_blocks(gpu: Gpu, variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("neglm_cli.lm.setup.MAX_SCORES", 300)
    settings = variant_of(TINY, variant)
    compare(settings, on_gpu(gpu, settings), LENGTHS)


@pytest.mark.parametrize(
    ("changes", "launches"),
    [({}, 23), ({"noise": "step"}, 27), ({"layers": 1}, 17), ({"optimizer": "adam", "adam": "exact"}, 24)],
)
def test_launches_of_a_minibatch(gpu: Gpu, changes: dict[str, object], launches: int) -> None:
    """A launch takes the host as long as hundreds of words take the GPU."""
    settings = replace(TINY, **changes)  # type: ignore[arg-type]
    trained = on_gpu(gpu, settings)
    trained.train(minibatch(settings, WORDS, 0)).result()
    before = gpu.launches
    trained.train(minibatch(settings, WORDS, 1)).result()
    assert gpu.launches - before == launches


class RecordingGemm(TiledGemm):
    """Records forms and sizes of products."""

    def __init__(self, gpu: Gpu) -> None:
        super().__init__(gpu, SMALL_GEMMS, SMALL_GEMMS)
        self.products: list[tuple[str, Extent]] = []

    def matmul(
        self, form: str, a: MatrixView, b: MatrixView, c: MatrixView, extent: Extent, *others: Any, **options: Any
    ) -> None:  # fmt: skip
        self.products.append((form, extent))
        super().matmul(form, a, b, c, extent, *others, **options)


@pytest.mark.parametrize(
    ("changes", "rows", "words"),
    [({"noise": "step"}, 3, 3), ({"noise": "batch"}, 9, 3), ({"loss": "softmax"}, 9, WORDS)],
    ids=["step", "batch", "softmax"],
)
def test_scores_and_their_gradients_in_lower_precision(
    gpu: Gpu, changes: dict[str, object], rows: int, words: int
) -> None:
    """Like the products of the layers, unless each row has noise words of its own."""
    layers = 3 * TINY.layers
    for settings, expected in (
        (TINY, set()),
        (
            replace(TINY, **changes),  # type: ignore[arg-type]
            {("nt", (rows, words, 6)), ("nn", (rows, 6, words)), ("tn", (words, 6, rows))},
        ),
    ):
        recording = RecordingGemm(gpu)
        kernels = Kernels(TiledGemm(gpu, SMALL_GEMMS, SMALL_GEMMS), SMALL_STEPS, recording)
        made = CudaDevice(parameters(settings, WORDS), settings, counts(WORDS), END_OF_LINE, gpu, kernels)
        made.prepare_training()
        made.train(minibatch(settings, WORDS, 0)).result()
        assert len(recording.products) == layers + len(expected)
        assert expected <= set(recording.products)


@pytest.mark.parametrize("variant", slow_except(["exact adam"], ["exact adam", "neglm", "adagrad", "adam, softmax"]))
def test_from_the_cpu_to_a_gpu_and_back(gpu: Gpu, variant: str) -> None:
    """The result is that of training on the CPU only. Devices change within an epoch, once after a minibatch
    that is shorter."""
    settings = variant_of(TINY, variant)

    def train(trained: Device, numbers: range) -> None:
        for number in numbers:
            trained.train(minibatch(settings, WORDS, number, 3 if number % 2 else None)).result()

    alone, first, second, third = (
        device(settings, WORDS), device(settings, WORDS), on_gpu(gpu, settings), device(settings, WORDS)
    )  # fmt: skip
    train(alone, range(6))
    train(first, range(2))
    second.restore(materialize(first.parameters() | first.state()))
    train(second, range(2, 4))
    third.restore(materialize(second.parameters() | second.state()))
    train(third, range(4, 6))
    for one in (alone, third):
        one.flush_lazy_updates(6, settings.lr)
    expected, found = (materialize(one.parameters() | one.state()) for one in (alone, third))
    assert expected.keys() == found.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=2e-5, err_msg=name)
    for one in (alone, first, third):
        one.close()


@pytest.mark.parametrize("loss", slow_except([], LOSSES))
def test_matches_the_cpu_after_20_steps(gpu: Gpu, loss: str) -> None:
    settings = replace(TINY, loss=loss)
    trained, expected = on_gpu(gpu, settings), device(settings, WORDS)
    for number in range(20):
        batch = minibatch(settings, WORDS, number)
        one, other = trained.train(batch).result(), expected.train(batch).result()
        assert one.loss == pytest.approx(other.loss, rel=1e-4)
    for mine, theirs in zip(*(model_of(d.parameters(), settings).arrays() for d in (trained, expected)), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-4)
    np.testing.assert_allclose(trained.log_z(), expected.log_z(), atol=1e-4)
    expected.close()


def test_all_lazy_updates_take_several_launches(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is short, and together they update what the CPU does."""
    monkeypatch.setattr("neglm_cli.lm.cuda.training.FLUSHED_ROWS", 15)
    settings = variant_of(TINY, "exact adam")
    trained, expected = on_gpu(gpu, settings), device(settings, WORDS)
    for one in (trained, expected):
        for number in range(2):
            one.train(minibatch(settings, WORDS, number)).result()
    before = gpu.launches
    for one in (trained, expected):
        one.flush_lazy_updates(2, settings.lr)
    assert gpu.launches - before == -(-2 * WORDS // 15) > 1
    for mine, theirs in zip(*(model_of(d.parameters(), settings).arrays() for d in (trained, expected)), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=2e-5)
    expected.close()
