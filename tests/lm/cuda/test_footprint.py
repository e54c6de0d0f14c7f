"""The GPU memory that is announced is the memory that is allocated."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from neglm_cli.lm.cuda.device import CudaDevice
from neglm_cli.lm.cuda.gpu import IS_SIMULATED, Array, SimulatedGpu
from neglm_cli.lm.footprint import footprint
from neglm_cli.lm.parameters import Shape
from tests.lm.making import END_OF_LINE, SMALL, counts, parameters

WORDS = 50


class Recorder(SimulatedGpu):
    """Sums the bytes of all arrays."""

    def __init__(self) -> None:
        super().__init__()
        self.allocated = 0

    def zeros(self, shape: int | tuple[int, ...], dtype: Any = np.float32) -> Array:
        array = super().zeros(shape, dtype)
        self.allocated += array.nbytes
        return array


@pytest.mark.skipif(not IS_SIMULATED, reason="allocates on the simulator")
@pytest.mark.parametrize(
    "variant", [{}, {"optimizer": "adam"}, {"optimizer": "adagrad", "noise": "batch"}, {"loss": "softmax"}]
)
def test_it_is_what_is_allocated(variant: dict[str, Any]) -> None:
    settings = replace(SMALL, **variant)
    shape, gpu = Shape.of(WORDS, settings), Recorder()
    announced = footprint(shape, settings, counts(WORDS), gpu)
    assert gpu.allocated == 0
    device = CudaDevice(parameters(settings, WORDS), settings, counts(WORDS), END_OF_LINE, gpu)
    device.prepare_training()
    assert sum(announced.values()) == gpu.allocated
    assert announced["parameters"] == device.weights.nbytes >= 4 * shape.parameters(bias=True)
    if settings.optimizer == "adam":
        assert announced["optimizer"] == 2 * announced["parameters"] + 2 * 4 * WORDS  # and an int32 for each row
    assert list(announced) == list(footprint(shape, settings, counts(WORDS)))
    assert min(announced.values()) > 0
