"""A GPU as Numba offers it.

No other module imports numba.cuda, owns arrays on a GPU or launches kernels: a successor of the package, or a test,
takes its place by standing in for `cuda` and `Gpu`. Kernels are plain functions until a GPU compiles them for itself.
They use no warp functions, so that Numba's simulator, which has none, runs the same code.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np
from numba import cuda as numba_cuda
from numba import float32, float64, int32, int64, uint64, void
from numba.core import config

from neglm_cli.errors import NeglmError

FLOATS, MATRIX, DOUBLES = float32[::1], float32[:, ::1], float64[::1]
IDS, BITS = int32[::1], uint64[::1]
WHOLE, REAL = int64, float32
cuda: Any = numba_cuda  # what kernels say is compiled by Numba, which has no types for mypy
IS_SIMULATED = bool(config.ENABLE_CUDASIM)  # type: ignore[attr-defined]
config.CUDA_LOW_OCCUPANCY_WARNINGS = 0  # type: ignore[attr-defined]  # small grids are meant to be small
OLDEST = (7, 5)  # compute capability, for CUDA 13
SHARED_BYTES = 48 << 10  # of a block: Numba offers no more

ROWS_AT_ONCE = 1 << 16  # that are cleared together

Array = Any  # on a GPU


@dataclass(frozen=True)
class Kernel:
    """A function, the types of its arguments, how many threads a block has, and the rows and columns it makes."""

    name: str
    function: Callable[..., None]
    types: tuple[Any, ...]
    threads: int
    tile: tuple[int, int]
    cooperative: bool  # blocks wait for each other: all must be on the GPU at once


KERNELS: dict[str, Kernel] = {}


def kernel(
    *types: Any, threads: int, tile: tuple[int, int] = (1, 1), name: str = "", cooperative: bool = False
) -> Callable[..., Kernel]:
    """Enters a function in the table of kernels."""

    def enter(function: Callable[..., None]) -> Kernel:
        made = Kernel(name or function.__name__, function, types, threads, tile, cooperative)
        KERNELS[made.name] = made
        return made

    return enter


class Signal(Protocol):
    """Something on the GPU that will be done."""

    def synchronize(self) -> None: ...


def driver_error() -> str:
    """Why NVIDIA's driver could not be loaded or started; empty if it could."""
    cuda.is_available()  # starts it
    return str(cuda.cuda_error() or "")


def driver_version() -> tuple[int, int]:
    """The newest CUDA that the driver knows."""
    major, minor = cuda.cudadrv.driver.get_version()
    return int(major), int(minor)


def toolkit_version() -> tuple[int, int]:
    """Of the CUDA libraries that compile kernels."""
    major, minor = cuda.cudadrv.runtime.get_version()
    return int(major), int(minor)


def gpus() -> int:
    return 1 if IS_SIMULATED else 0 if driver_error() else len(cuda.gpus)


class Gpu:
    """One GPU, with a stream for work and one for copies that need not wait for it.

    optional: chosen by `--device auto`, so that the CPU takes its place if it fails at start."""

    optional = False

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self._here = threading.local()
        self._attach()
        self._device = cuda.get_current_device()
        self._stream = cuda.stream()
        self._copies = cuda.stream()
        self._compiled: dict[tuple[str, int], Any] = {}
        self.launches = 0
        self.kernels_run: set[str] = set()

    def _attach(self) -> None:
        """Every thread of the host has to say which GPU it means."""
        if not getattr(self._here, "attached", False):
            cuda.select_device(self.number)
            self._here.attached = True

    @property
    def name(self) -> str:
        name = self._device.name
        return str(name.decode() if isinstance(name, bytes) else name)

    @property
    def processors(self) -> int:
        return int(self._device.MULTIPROCESSOR_COUNT)

    @property
    def capability(self) -> tuple[int, int]:
        major, minor = self._device.compute_capability
        return int(major), int(minor)

    @property
    def driver(self) -> str:
        """The newest CUDA that the driver knows."""
        return "{}.{}".format(*driver_version())

    def memory(self) -> tuple[int, int]:
        """Bytes that are free, and all."""
        self._attach()
        free, total = cuda.current_context().get_memory_info()
        return int(free), int(total)

    @property
    def stream_handle(self) -> int:
        """For libraries that put work of their own in the same order."""
        return int(self._stream.handle)

    # --- arrays ---------------------------------------------------------------------------------------

    def zeros(self, shape: int | tuple[int, ...], dtype: Any = np.float32) -> Array:
        self._attach()
        try:
            array = cuda.device_array(shape, dtype)
        except Exception as error:
            if "OUT_OF_MEMORY" not in str(error):
                raise
            size = int(np.prod(shape)) * np.dtype(dtype).itemsize
            raise NeglmError(
                f"{self.name} has {self.memory()[0]:,} bytes of memory left, and an array of {size:,} is needed: use a "
                "smaller model, batch or vocabulary, or --device cpu"
            ) from error
        for first in range(0, len(array), ROWS_AT_ONCE):
            part = array[first : first + ROWS_AT_ONCE]
            self.write(part, np.zeros(part.shape, dtype))
        return array

    def upload(self, host: np.ndarray) -> Array:
        array = self.zeros(host.shape, host.dtype)
        self.write(array, host)
        return array

    def download(self, array: Array) -> np.ndarray:
        """Copy to the host, after all work launched so far."""
        self._attach()
        host = array.copy_to_host(stream=self._stream)
        self._stream.synchronize()
        return np.asarray(host)

    def write(self, array: Array, host: np.ndarray) -> None:
        """Copy to the GPU, after all work launched so far; done when this returns."""
        self._attach()
        array.copy_to_device(np.ascontiguousarray(host), self._stream)
        self._stream.synchronize()

    def address(self, array: Array) -> int:
        return int(array.device_ctypes_pointer.value)

    def pinned(self, size: int, dtype: Any) -> np.ndarray:
        """Memory of the host that is copied without its help."""
        self._attach()
        return np.asarray(cuda.pinned_array(size, dtype))

    # --- work -----------------------------------------------------------------------------------------

    def launch(
        self, kernel: Kernel, blocks: int | tuple[int, ...], *arguments: Any, shared: int = 0, threads: int = 0
    ) -> None:
        self._attach()
        self._compile(kernel)[blocks, threads or kernel.threads, self._stream, shared](*arguments)
        self.launches += 1
        self.kernels_run.add(kernel.name)

    def _compile(self, kernel: Kernel) -> Any:
        key = (kernel.name, id(kernel.function))
        if key not in self._compiled:
            self._compiled[key] = cuda.jit(void(*kernel.types))(kernel.function)
        return self._compiled[key]

    def most_blocks(self, kernel: Kernel, threads: int, shared: int) -> int:
        """Blocks that can be on the GPU at once."""
        (overload,) = self._compile(kernel).overloads.values()
        return int(overload.max_cooperative_grid_blocks(threads, shared))

    def copy_in(self, array: Array, host: np.ndarray) -> None:
        """Beside the work so far; what is begun after this waits for it."""
        self._attach()
        array.copy_to_device(host, self._copies)
        there = cuda.event()
        there.record(self._copies)
        there.wait(self._stream)

    def copy_out(self, array: Array, host: np.ndarray) -> Signal:
        """Behind the work so far; the host does not wait."""
        self._attach()
        array.copy_to_host(host, self._stream)
        return self.event()

    def event(self) -> Signal:
        """Passes when all work launched so far is done."""
        self._attach()
        event = cuda.event()
        event.record(self._stream)
        return event

    def synchronize(self) -> None:
        self._attach()
        self._stream.synchronize()


class SimulatedGpu(Gpu):
    """Numba's simulator. Its grids are not in step, so kernels that wait for each other have one block only."""

    name = "Numba's simulator"
    processors = 1
    capability = OLDEST

    def memory(self) -> tuple[int, int]:
        return 1 << 40, 1 << 40

    def pinned(self, size: int, dtype: Any) -> np.ndarray:
        return np.zeros(size, dtype)

    def most_blocks(self, kernel: Kernel, threads: int, shared: int) -> int:
        return 1


def ptx(kernel: Kernel, capability: tuple[int, int]) -> str:
    """A kernel's code for GPUs of a compute capability; none need be there."""
    with _as_if_on(capability):
        code, _ = cuda.compile_ptx(kernel.function, void(*kernel.types), cc=capability)
    return str(code)


@contextmanager
def _as_if_on(capability: tuple[int, int]) -> Iterator[None]:
    """Answer for the GPU that Numba asks for its compute capability while it compiles."""
    device = SimpleNamespace(compute_capability=capability)
    modules = [import_module(f"numba.cuda.{name}") for name in ("dispatcher", "compiler")]
    asked = [module.get_current_device for module in modules]
    try:
        for module in modules:
            module.get_current_device = lambda: device  # type: ignore[attr-defined]
        yield
    finally:
        for module, before in zip(modules, asked, strict=True):
            module.get_current_device = before  # type: ignore[attr-defined]
