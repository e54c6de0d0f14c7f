"""Probes a GPU: queries the driver, then runs one kernel."""

import functools
import math
import re
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numba import float32

from neglm_cli.lm.checks import described
from neglm_cli.lm.cuda.gpu import OLDEST, Floats, Gpu, Grid, Kernel, cuda, driver_error, driver_version, toolkit_version
from neglm_cli.lm.devices import INSTALL, UnusableGpuError

DISABLED, NOT_INSTALLED, NO_DEVICE = "NUMBA_DISABLE_CUDA", "library cannot be found", "CUDA_ERROR_NO_DEVICE"
THREADS = 64  # of the trial kernel
TOLERANCE = 1e-5
SMI_SECONDS = 10  # that nvidia-smi may take


@contextmanager
def _query() -> Iterator[None]:
    """Raise UnusableGpuError for any error of a driver that is queried."""
    try:
        with warnings.catch_warnings(action="ignore"):  # their causes are raised as errors
            yield
    except UnusableGpuError:
        raise
    except Exception as error:  # anything a driver or an incomplete installation may raise
        raise UnusableGpuError(f"the NVIDIA driver or the CUDA libraries do not work: {described(error)}") from error


def find_gpus(numbers: list[int], by_memory: bool) -> list[int]:
    """Return these GPUs or, if none is given, all. Raise UnusableGpuError if one does not exist."""
    with _query():
        _check_driver()
        for number in numbers:
            _check_number(number)
        count = len(cuda.gpus)
        return numbers or (_by_memory(count) if by_memory else list(range(count)))


def open_gpu(number: int) -> Gpu:
    """Open a GPU. Raise UnusableGpuError if it does not work."""
    with _query():
        _check_driver()
        _check_gpu(number)
    try:
        gpu = Gpu(number)
        correct = run_trial(gpu)
    except Exception as error:
        raise UnusableGpuError(f"a trial kernel fails on the NVIDIA GPU: {described(error)}", broken=True) from error
    if not correct:
        raise UnusableGpuError("a trial kernel gives wrong results on the NVIDIA GPU", broken=True)
    return gpu


@functools.cache  # a model that is opened later goes to the same GPU
def _by_memory(count: int) -> list[int]:
    """Return the numbers of all GPUs, that with most free memory first. Without nvidia-smi, all count as equal."""
    if count == 1:
        return [0]
    free = free_memory()
    return sorted(range(count), key=lambda number: -free.get(number, 0))


def names() -> list[str]:
    """Return the names of all GPUs."""
    found = [cuda.gpus[number].name for number in range(len(cuda.gpus))]
    return [name.decode() if isinstance(name, bytes) else str(name) for name in found]


def free_memory() -> dict[int, int]:
    """Return the free memory of each GPU, in bytes, by its number; only of those that nvidia-smi knows.

    To ask the driver would take some memory of each."""
    command = ["nvidia-smi", "--query-gpu=uuid,memory.free", "--format=csv,noheader,nounits"]
    try:
        lines = subprocess.run(command, capture_output=True, text=True, timeout=SMI_SECONDS, check=True).stdout
        free = {uuid: int(mebibytes) << 20 for uuid, mebibytes in (line.split(", ") for line in lines.splitlines())}
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}
    uuids = {number: str(cuda.gpus[number].uuid) for number in range(len(cuda.gpus))}
    return {number: free[uuid] for number, uuid in uuids.items() if uuid in free}


def _check_driver() -> None:
    error = driver_error()
    if DISABLED in error:
        raise UnusableGpuError(f"the environment variable {DISABLED} disables NVIDIA GPUs", absent=True)
    if NOT_INSTALLED in error:
        raise UnusableGpuError(
            "no NVIDIA driver is installed (install one for the GPU; nvidia-smi shows whether it works)", absent=True
        )
    if error and NO_DEVICE not in error:
        code = re.search(r"CUDA_ERROR_\w+", error)
        what = code[0] if code else " ".join(error.split())
        raise UnusableGpuError(f"the NVIDIA driver does not start: {what} (nvidia-smi shows whether it works)")
    if error or not len(cuda.gpus):
        raise UnusableGpuError(
            "the driver finds no NVIDIA GPU (nvidia-smi lists them; CUDA_VISIBLE_DEVICES may hide them)"
        )


def _check_number(number: int) -> None:
    count = len(cuda.gpus)
    if number >= count:
        raise UnusableGpuError(f"the last NVIDIA GPU is cuda:{count - 1}")


def _check_gpu(number: int) -> None:
    _check_number(number)
    try:
        toolkit = toolkit_version()
        complete = cuda.is_available()
    except Exception as error:  # its class depends on the missing library
        raise UnusableGpuError(f"CUDA's libraries are missing ({INSTALL})") from error
    if not complete:
        raise UnusableGpuError(f"CUDA's libraries are missing ({INSTALL})")
    driver = driver_version()
    if driver[0] < toolkit[0]:  # minor versions are compatible
        raise UnusableGpuError(
            "the NVIDIA driver supports CUDA {}.{}, but the installed CUDA libraries need a driver for CUDA {}: update "
            "it, or install older libraries (pip install 'numba-cuda[cu{}]')".format(*driver, toolkit[0], driver[0])
        )
    capability = tuple(cuda.gpus[number].compute_capability)
    if capability < OLDEST:
        raise UnusableGpuError(
            "the NVIDIA GPU has compute capability {}.{}, but neglm needs at least {}.{}, like CUDA 13".format(
                *capability, *OLDEST
            )
        )


def _trial(x: Floats, y: Floats) -> None:
    """Reverse x through shared memory, and apply a function of CUDA's math library."""
    shared = cuda.shared.array(THREADS, float32)
    thread = cuda.threadIdx.x
    shared[thread] = x[thread]
    cuda.syncthreads()
    y[thread] = math.tanh(shared[THREADS - 1 - thread])


TRIAL = Kernel("trial", _trial, THREADS)


def run_trial(gpu: Gpu) -> bool:
    """Return True if the trial kernel computes the correct result."""
    x = np.linspace(-2, 2, THREADS, dtype=np.float32) ** 3
    y = gpu.zeros(THREADS)
    gpu.launch(TRIAL, Grid(1, THREADS), x=gpu.upload(x), y=y)
    return bool(np.abs(gpu.download(y) - np.tanh(x[::-1])).max() <= TOLERANCE)
