"""Selection of the device that --device names, with a fallback to the CPU."""

import ctypes
import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.lm.checks import described
from neglm_cli.lm.device import Device
from neglm_cli.lm.parameters import Parameters
from neglm_cli.scale.ranks import SINGLE_RANK, Ranks
from neglm_cli.settings.train_lm import Settings

if TYPE_CHECKING:
    from neglm_cli.lm.cuda.gpu import Gpu
    from neglm_cli.lm.model import LanguageModel

Model = tuple[Parameters, Settings, np.ndarray, int]  # with the counts of its words, and the one that ends a line
AUTO, CPU, ALL = "auto", "cpu", "cuda:all"
INSTALL = "pip install 'neglm[cuda]'"


def is_device(name: str) -> bool:
    return re.fullmatch(r"auto|cpu|cuda(:(all|\d{1,4}(,\d{1,4})*))?", name, re.ASCII) is not None


def is_list(name: str) -> bool:
    """Return True for cuda:all and cuda:0,1, which have a rank for each GPU."""
    return name == ALL or "," in name


class UnusableGpuError(NeglmError):
    """The reason why a GPU cannot be used.

    absent: nothing suggests that this machine has one. broken: it has one, which should work."""

    def __init__(self, reason: str, absent: bool = False, broken: bool = False) -> None:
        super().__init__(reason)
        self.absent, self.broken = absent, broken


class PrecisionError(NeglmError):
    """The reason why --precision cannot be used; there is no fallback."""


def check_precision(precision: str, gpu: "Gpu | None") -> None:
    """Raise unless this device may have it."""
    if precision != "fp32" and gpu is None:
        raise PrecisionError(f"--precision {precision} needs a GPU: use --device cuda, or --precision fp32 on the CPU")


def _has_driver() -> bool:
    """Return False if there is no CUDA driver: numba-cuda, which would look for one, takes a second to import."""
    if os.environ.get("NUMBA_CUDA_DRIVER") or os.environ.get("NUMBA_ENABLE_CUDASIM", "0") != "0":
        return True
    for library in ("libcuda.so.1", "libcuda.so", "nvcuda.dll"):
        with suppress(OSError):
            ctypes.CDLL(library)
            return True
    return False


def find_gpus(name: str) -> list[int]:
    """Return the numbers of the GPUs that `--device` names; without a number, of all, that with most free memory first.
    Raises UnusableGpuError if there is none, or not one of them. None is opened."""
    gpu, probe = _cuda_modules(name)
    listed = name.partition(":")[2]
    numbers = [] if name == ALL or not listed else [int(number) for number in listed.split(",")]
    if gpu.IS_SIMULATED and not is_list(name):
        return [0]
    return probe.find_gpus(numbers, by_memory=not listed)


def open_gpu(name: str, number: int | None = None) -> "Gpu":
    """Open a GPU, by default the first that `--device` names, and try it; raises UnusableGpuError if anything is wrong
    with it."""
    gpu, probe = _cuda_modules(name)
    if gpu.IS_SIMULATED:
        return gpu.SimulatedGpu()
    opened = probe.open_gpu(find_gpus(name)[0] if number is None else number)
    opened.optional = name == AUTO
    return opened


def _cuda_modules(name: str) -> tuple[Any, Any]:
    """Import the modules gpu and probe, if there may be a GPU for this name."""
    if find_spec("numba_cuda") is None:
        raise UnusableGpuError(f"the package numba-cuda is not installed ({INSTALL}, for NVIDIA GPUs)", absent=True)
    if name == AUTO and not _has_driver():
        raise UnusableGpuError("there is no NVIDIA driver", absent=True)
    try:
        from neglm_cli.lm.cuda import gpu, probe
    except Exception as error:  # whatever an incomplete installation raises
        raise UnusableGpuError(f"the package numba-cuda does not work: {described(error)} ({INSTALL})") from error
    if gpu.IS_SIMULATED and name == AUTO:
        raise UnusableGpuError("there is only Numba's simulator", absent=True)
    return gpu, probe


def make_device(
    parameters: Parameters, settings: Settings, counts: np.ndarray, end_of_line: int, gpu: "Gpu | None",
    training: bool, note: Callable[[str], None], ranks: Ranks = SINGLE_RANK,
) -> Device:  # fmt: skip
    """Make a device with a model, its kernels loaded or compiled. If an optional GPU fails on any rank, all ranks use
    the CPU."""
    model = (parameters, settings, counts, end_of_line)
    if gpu is not None:
        device, failure = None, ""
        try:
            device = _on_gpu(gpu, model, training, note, ranks)
        except PrecisionError:
            raise
        except Exception as error:  # whatever a driver or a compiler raises
            failure = str(error) if isinstance(error, NeglmError) else f"the GPU fails: {described(error)}"
            if not gpu.optional:
                raise NeglmError(f"--device cuda cannot be used: {failure}") from error
        failures = [found for found in ranks.allgather(failure) if found] if gpu.optional else []
        if device is not None and not failures:
            return device
        if device is not None:
            device.close()
        note(f"using the CPU: {failures[0]}")
    if training:
        check_precision(settings.precision, None)
    return _on_cpu(model, training, ranks)


def _on_cpu(model: Model, training: bool, ranks: Ranks) -> Device:
    from neglm_cli.lm.cpu.device import CpuDevice, load_kernels

    ranks.run_staggered(lambda: load_kernels(model[1], training))
    device = CpuDevice(*model, ranks)
    if training:
        device.prepare_training()
    return device


def _on_gpu(gpu: "Gpu", model: Model, training: bool, note: Callable[[str], None], ranks: Ranks) -> Device:
    from neglm_cli.lm.cuda.autotune import choose_gemm, rounded_gemm
    from neglm_cli.lm.cuda.blas import Cublas
    from neglm_cli.lm.cuda.device import CudaDevice
    from neglm_cli.lm.cuda.gemm import Extent
    from neglm_cli.lm.cuda.gpu import IS_SIMULATED
    from neglm_cli.lm.cuda.network import Kernels
    from neglm_cli.lm.cuda.warmup import smoke_test

    if gpu.is_first_start:
        note("compiling kernels for the GPU, which takes a while …")
    shape, settings = model[0].shape, model[1]
    extent = Extent(settings.batch * settings.bptt, 4 * shape.hidden, shape.hidden + 1)
    gemm = choose_gemm(gpu, extent, note)
    kernels = Kernels(gemm, step_products=isinstance(gemm, Cublas))
    if not IS_SIMULATED:  # where it would take minutes
        smoke_test(gpu, settings, training, kernels, ranks.size)
    if training and settings.precision != "fp32":
        kernels = replace(kernels, rounded_gemm=rounded_gemm(gpu, extent, settings.precision))
    device = CudaDevice(*model, gpu, kernels, ranks)
    if training:
        device.prepare_training()
    return device


def scoring_device(
    model: "LanguageModel", threads: int, gpu: "Gpu | None" = None, note: Callable[[str], None] = lambda _: None,
    ranks: Ranks = SINGLE_RANK,
) -> Device:  # fmt: skip
    """Load a trained model onto a GPU, or onto the CPU without one; see `make_device`."""
    settings = replace(model.settings, threads=threads)
    return make_device(
        model.parameters(), settings, model.words.counts, model.end_of_line, gpu, training=False, note=note, ranks=ranks
    )
