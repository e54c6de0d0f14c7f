"""Everything about parameters follows from their declarations in `settings.parameters`."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from neglm_cli.lm.checks import changed_settings
from neglm_cli.lm.device import Device
from neglm_cli.lm.parameters import Shape, initial_parameters, padded, zero_parameters
from neglm_cli.lm.tensors import materialize
from neglm_cli.settings.parameters import OPTIMIZERS, PARAMETERS
from neglm_cli.settings.train_lm import Settings
from neglm_cli.store.schema import KINDS, data_size, tensors_of
from tests.lm.making import SMALL, ReferenceTraining, device

WORDS = 20
SHAPE = Shape.of(WORDS, SMALL)


@pytest.mark.parametrize("tie", [False, True])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("make", [device, ReferenceTraining])
def test_devices_have_the_tensors_of_files(make: Callable[[Settings, int], Device], optimizer: str, tie: bool) -> None:
    settings = changed_settings(SMALL, {"optimizer": optimizer, "tie": tie, "average": int(tie)})
    made = make(settings, WORDS)
    if tie:
        made.add_to_average(1)
    found = {name: tensor.shape for name, tensor in materialize(made.parameters() | made.state()).items()}
    made.close()
    fields = {"layers": settings.layers, "optimizer": optimizer, "tie": tie, "progress": {"averaged": int(tie)}}
    lengths = {"V": WORDS, "D": 10, "H": 13, "4H": 52, "L": 2, "B": settings.batch}
    word_list = {"words", "offsets", "counts"}
    expected = {
        tensor.name: tuple(lengths[letter] for letter in tensor.shape)
        for tensor in tensors_of(KINDS["checkpoint"], fields)
        if tensor.name not in word_list
    }
    assert found == expected
    size = data_size("checkpoint", fields, lengths | {"W": 0}) - 8 * (2 * WORDS + 1)
    assert size == 4 * sum(math.prod(shape) for shape in found.values())


def test_parameters_share_the_rows_of_their_table() -> None:
    used = {table: np.zeros(padded(SHAPE.width(table)), int) for table in SHAPE.tables}
    for spec in SHAPE.specs:
        if spec.table:
            used[spec.table][SHAPE.columns(spec)] += 1
    assert {table: columns.tolist() for table, columns in used.items()} == {
        "embedding": [1] * 10 + [0] * (padded(10) - 10),
        "output": [1] * 14 + [0] * (padded(14) - 14),
    }


def test_the_number_of_parameters() -> None:
    tensors = zero_parameters(SHAPE).tensors()
    assert SHAPE.parameters(bias=True) == sum(tensor.size for tensor in tensors.values())
    assert SHAPE.parameters(bias=False) == SHAPE.parameters(bias=True) - WORDS


def test_initial_values_are_those_declared() -> None:
    settings = replace(SMALL, init_range=0.25, init_output=0.5, bias_init=-1.5)
    made = initial_parameters(SHAPE, settings)
    tensors = made.tensors()
    assert {spec.name.format(layer=layer) for spec in PARAMETERS for layer in range(2)} == set(tensors)
    for name, tensor in tensors.items():
        if name == "output_bias":
            assert (tensor == -1.5).all()
        else:
            limit = 0.5 if name == "output" else 0.25
            assert 0.8 * limit < np.abs(tensor).max() <= limit
            assert abs(tensor.mean()) < 0.2 * limit
    assert len({tensor.reshape(-1)[:5].tobytes() for tensor in tensors.values()}) == len(tensors)
    for table in SHAPE.tables:
        assert not made.tables[table][:, SHAPE.width(table) :].any()


@pytest.mark.parametrize(("loss", "bias"), [("nce", -math.log(WORDS)), ("softmax", 0.0)])
def test_biases_start_as_the_loss_needs_them(loss: str, bias: float) -> None:
    made = initial_parameters(SHAPE, replace(SMALL, loss=loss))
    np.testing.assert_allclose(made.tensors()["output_bias"], bias, rtol=1e-6)
