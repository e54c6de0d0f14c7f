"""The fallback to the CPU if a GPU fails on any rank."""

from dataclasses import replace
from typing import Any

import pytest

from neglm_cli.lm.cpu.device import CpuDevice
from neglm_cli.lm.cuda.gpu import IS_SIMULATED, SimulatedGpu
from neglm_cli.lm.devices import PrecisionError, make_device
from neglm_cli.scale.ranks import SingleRank
from tests.lm.making import END_OF_LINE, SMALL, counts, parameters

pytestmark = pytest.mark.skipif(not IS_SIMULATED, reason="there is a GPU")
WORDS = 20


class OtherFails(SingleRank):
    """A job whose other rank has a broken GPU."""

    def allgather(self, value: Any) -> list[Any]:
        return [value, "rank 1 fails"]


class Watched(SimulatedGpu):
    synchronized = 0

    def synchronize(self) -> None:
        self.synchronized += 1
        super().synchronize()


@pytest.mark.parametrize("optional", [False, True])
def test_lower_precision_has_no_fallback(optional: bool) -> None:
    gpu, settings = SimulatedGpu(), replace(SMALL, threads=1, precision="bf16")
    gpu.optional, gpu.capability = optional, (7, 5)
    model = (parameters(settings, WORDS), settings, counts(WORDS), END_OF_LINE)
    with pytest.raises(PrecisionError, match=r"^--precision bf16 needs a GPU of compute capability 8.0"):
        make_device(*model, gpu, training=True, note=lambda _: None)
    with pytest.raises(PrecisionError, match=r"^--precision bf16 needs a GPU: use --device cuda"):
        make_device(*model, None, training=True, note=lambda _: None)
    make_device(*model, gpu, training=False, note=lambda _: None).close()  # scoring does not use it


def test_a_gpu_is_released_if_that_of_another_rank_fails() -> None:
    gpu, notes = Watched(), list[str]()
    gpu.optional = True
    settings = replace(SMALL, threads=1)
    model = (parameters(settings, WORDS), settings, counts(WORDS), END_OF_LINE)
    made = make_device(*model, gpu, training=False, note=notes.append, ranks=OtherFails())
    made.close()
    assert isinstance(made, CpuDevice)
    assert notes[-1] == "using the CPU: rank 1 fails"
    assert gpu.synchronized == 1
