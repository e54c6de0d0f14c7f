"""GPU access through Numba.

No other module imports numba.cuda, allocates GPU memory or launches kernels, so that tests can substitute `cuda` and
`Gpu`. Kernels are plain functions until a GPU compiles them. They use no warp functions, which Numba's simulator lacks.

The annotations of a kernel's parameters are its signature: a type of this module, or a NamedTuple of them, which Numba
flattens. Launches name every argument, and structures must be of the declared class.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from types import SimpleNamespace
from typing import Annotated, Any, Protocol, get_type_hints

import numpy as np
from numba import cuda as numba_cuda
from numba import float32, float64, int32, int64, types, uint64, void
from numba.core import config

from neglm_cli.errors import NeglmError
from neglm_cli.kernels import register_with_numba
from neglm_cli.lm.cuda.cache import kernel_directory
from neglm_cli.lm.cuda.launcher import Launcher, make_launcher

register_with_numba()

Array = Any  # on a GPU

# Parameters of kernels: C-contiguous arrays, and scalars.
FLOATS, MATRIX, DOUBLES = float32[::1], float32[:, ::1], float64[::1]
IDS, LONGS, BITS = int32[::1], int64[::1], uint64[::1]
Floats = Annotated[Array, FLOATS]
Matrix = Annotated[Array, MATRIX]
Doubles = Annotated[Array, DOUBLES]
Ids = Annotated[Array, IDS]
Longs = Annotated[Array, LONGS]
Bits = Annotated[Array, BITS]
Int = Annotated[int, int64]
Float = Annotated[float, float32]

cuda: Any = numba_cuda  # which has no types for mypy
IS_SIMULATED = bool(config.ENABLE_CUDASIM)  # type: ignore[attr-defined]
config.CUDA_LOW_OCCUPANCY_WARNINGS = 0  # type: ignore[attr-defined]  # small grids are intended
OLDEST = (7, 5)  # compute capability, for CUDA 13
SHARED_BYTES = 48 << 10  # per block, unless a kernel asks for more: see `Gpu.most_blocks`
ZEROED_ROWS = 1 << 16  # per copy
BLOCKS_PER_MULTIPROCESSOR = 8


@dataclass(frozen=True, eq=False)
class Kernel:
    """A function for the GPU, and its launch parameters."""

    name: str
    function: Callable[..., None]
    threads: int  # of a block
    tile: tuple[int, int] = (1, 1)  # rows and columns of the result that a block computes
    cooperative: bool = False  # blocks synchronize with each other, so all must be resident

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """The annotations of the parameters, by name."""
        hints = get_type_hints(self.function, include_extras=True)
        return {name: hint for name, hint in hints.items() if name != "return"}

    @property
    def types(self) -> tuple[Any, ...]:
        """Numba's types of the parameters."""
        return tuple(_numba_type(hint) for hint in self.parameters.values())

    def ordered(self, arguments: dict[str, Any]) -> list[Any]:
        """Return the arguments in the order of the parameters. Raise TypeError if a name or a structure's class is
        wrong."""
        if arguments.keys() != self.parameters.keys():
            raise TypeError(f"{self.name} takes {', '.join(self.parameters)}, not {', '.join(arguments)}")
        for name, hint in self.parameters.items():
            if isinstance(hint, type) and type(arguments[name]) is not hint:
                raise TypeError(f"{name} of {self.name} is a {type(arguments[name]).__name__}, not a {hint.__name__}")
        return [arguments[name] for name in self.parameters]


def _numba_type(hint: Any) -> Any:
    """Return the type of a parameter, or of a field of a structure."""
    if not isinstance(hint, type):
        return hint.__metadata__[0]
    fields = get_type_hints(hint, include_extras=True)
    return types.NamedTuple(tuple(_numba_type(fields[name]) for name in hint._fields), hint)  # type: ignore[attr-defined]


KERNELS: dict[str, Kernel] = {}


def kernel(
    threads: int, tile: tuple[int, int] = (1, 1), name: str = "", cooperative: bool = False
) -> Callable[[Callable[..., None]], Kernel]:
    """Register a function as a kernel."""

    def register(function: Callable[..., None]) -> Kernel:
        made = Kernel(name or function.__name__, function, threads, tile, cooperative)
        KERNELS[made.name] = made
        return made

    return register


@dataclass(frozen=True)
class Grid:
    """The grid of a launch; block size and shared memory, if they differ from the kernel's defaults."""

    blocks: int | tuple[int, ...]
    threads: int = 0  # per block; 0 for the kernel's default
    shared: int = 0  # bytes of dynamic shared memory per block


class Signal(Protocol):
    """Queued GPU work that can be waited for."""

    def synchronize(self) -> None: ...


def driver_error() -> str:
    """Return why NVIDIA's driver could not be loaded or initialized; empty if it was."""
    cuda.is_available()  # initializes it
    return str(cuda.cuda_error() or "")


def driver_version() -> tuple[int, int]:
    """Return the newest CUDA version that the driver supports."""
    major, minor = cuda.cudadrv.driver.get_version()
    return int(major), int(minor)


def toolkit_version() -> tuple[int, int]:
    """Return the version of the CUDA libraries that compile kernels."""
    major, minor = cuda.cudadrv.runtime.get_version()
    return int(major), int(minor)


def gpus() -> int:
    return 1 if IS_SIMULATED else 0 if driver_error() else len(cuda.gpus)


class Gpu:
    """One GPU, with one stream for kernels and copies.

    optional: chosen by `--device auto`; the CPU replaces it if it fails at the start."""

    optional = False

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self._thread = threading.local()
        self._attach()
        self._device = cuda.get_current_device()
        self._stream = cuda.stream()
        self._compiled: dict[tuple[str, int], Any] = {}
        self._launchers: dict[tuple[str, int], Launcher | None] = {}
        self._cache = None if IS_SIMULATED else self._enable_cache()
        self.is_first_start = self._cache is None or not os.listdir(self._cache)  # so that kernels are compiled
        self.launches = 0
        self.kernels_run: set[str] = set()
        self._timings: list[tuple[str, Any, Any]] | None = None

    def _attach(self) -> None:
        """Select the GPU, once per host thread."""
        if not getattr(self._thread, "attached", False):
            cuda.select_device(self.number)
            self._thread.attached = True

    @cached_property
    def _core_stream(self) -> Any:
        """The stream as a class of cuda.core, which launches take."""
        return import_module("cuda.core").Stream.from_handle(self.stream_handle)

    def _enable_cache(self) -> str | None:
        """Let Numba store compiled kernels; return their directory, or None if there is none."""
        versions = (self.name, *self.capability, *driver_version(), *toolkit_version())
        directory = kernel_directory(" ".join(map(str, versions)))
        if directory is not None:
            import_module("numba.cuda.core.config").CACHE_DIR = directory  # type: ignore[attr-defined]
        return directory

    @property
    def name(self) -> str:
        name = self._device.name
        return str(name.decode() if isinstance(name, bytes) else name)

    @property
    def multiprocessors(self) -> int:
        return int(self._device.MULTIPROCESSOR_COUNT)

    @property
    def capability(self) -> tuple[int, int]:
        major, minor = self._device.compute_capability
        return int(major), int(minor)

    @property
    def shared_bytes(self) -> int:
        """The most shared memory per block, for kernels that ask for it."""
        return max(SHARED_BYTES, int(self._device.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN))

    @property
    def driver(self) -> str:
        """The newest CUDA version that the driver supports."""
        return "{}.{}".format(*driver_version())

    def memory(self) -> tuple[int, int]:
        """Return the free and the total memory, in bytes."""
        self._attach()
        free, total = cuda.current_context().get_memory_info()
        return int(free), int(total)

    @property
    def stream_handle(self) -> int:
        """The handle of the stream, for libraries that queue work on it."""
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
                f"{self.name} has {self.memory()[0]:,} bytes of free memory, but an array needs {size:,}; use a "
                "smaller model, batch or vocabulary, or --device cpu"
            ) from error
        for first in range(0, len(array), ZEROED_ROWS):
            part = array[first : first + ZEROED_ROWS]
            self.write(part, np.zeros(part.shape, dtype))
        return array

    def upload(self, host: np.ndarray) -> Array:
        array = self.zeros(host.shape, host.dtype)
        self.write(array, host)
        return array

    def download(self, array: Array) -> np.ndarray:
        """Copy to the host, after all work queued so far."""
        self._attach()
        host = array.copy_to_host(stream=self._stream)
        self._stream.synchronize()
        return np.asarray(host)

    def write(self, array: Array, host: np.ndarray) -> None:
        """Copy to the GPU, after all work queued so far. Wait for the copy."""
        self._attach()
        array.copy_to_device(np.ascontiguousarray(host), self._stream)
        self._stream.synchronize()

    def address(self, array: Array) -> int:
        return int(array.device_ctypes_pointer.value)

    def pinned(self, size: int, dtype: Any) -> np.ndarray:
        """Allocate page-locked host memory, for asynchronous copies."""
        self._attach()
        return np.asarray(cuda.pinned_array(size, dtype))

    # --- work -----------------------------------------------------------------------------------------

    def launch(self, kernel: Kernel, grid: Grid | int | tuple[int, ...], /, **arguments: Any) -> None:
        """Queue a kernel. grid: its blocks, or a `Grid`. arguments: all parameters of the kernel, by name."""
        self._attach()
        ordered = kernel.ordered(arguments)
        if not isinstance(grid, Grid):
            grid = Grid(grid)
        with self.timed(kernel.function.__name__):
            self._run(kernel, replace(grid, threads=grid.threads or kernel.threads), ordered)
        self.launches += 1
        self.kernels_run.add(kernel.name)

    def _run(self, kernel: Kernel, grid: Grid, arguments: list[Any]) -> None:
        compiled, launcher = self._compile(kernel), self._launcher(kernel)
        if launcher is None:
            compiled[grid.blocks, grid.threads, self._stream, grid.shared](*arguments)
        else:
            launcher.launch(grid.blocks, grid.threads, grid.shared, self._core_stream, arguments)

    def _launcher(self, kernel: Kernel) -> Launcher | None:
        key = (kernel.name, id(kernel.function))
        if key not in self._launchers:
            self._launchers[key] = None if IS_SIMULATED else make_launcher(self._compile(kernel))
        return self._launchers[key]

    def _compile(self, kernel: Kernel) -> Any:
        key = (kernel.name, id(kernel.function))
        if key not in self._compiled:
            self._compiled[key] = cuda.jit(void(*kernel.types), cache=self._cache is not None)(kernel.function)
        return self._compiled[key]

    def most_blocks(self, kernel: Kernel, threads: int, shared: int) -> int:
        """Return the maximum number of resident blocks, which from now on may have so much shared memory."""
        (overload,) = self._compile(kernel).overloads.values()
        if shared > SHARED_BYTES:
            launcher = self._launcher(kernel)
            if launcher is None or not launcher.allow_shared(shared):
                return 0
        return int(overload.max_cooperative_grid_blocks(threads, shared))

    def copy_in(self, array: Array, host: np.ndarray) -> None:
        """Queue a copy to the GPU. host: of `pinned`."""
        self._attach()
        array.copy_to_device(host, self._stream)

    def copy_out(self, array: Array, host: np.ndarray) -> None:
        """Queue a copy to the host. host: of `pinned`."""
        self._attach()
        array.copy_to_host(host, self._stream)

    def event(self) -> Signal:
        """Return a signal for the completion of all work queued so far."""
        return self._recorded(timing=False)

    def _recorded(self, timing: bool) -> Any:
        self._attach()
        event = cuda.event() if IS_SIMULATED else cuda.event(timing=timing)
        event.record(self._stream)
        return event

    def synchronize(self) -> None:
        self._attach()
        self._stream.synchronize()

    # --- time -----------------------------------------------------------------------------------------

    @property
    def clock(self) -> float:
        """The peak clock rate of the multiprocessors, in Hz."""
        return 1e3 * self._device.CLOCK_RATE

    @property
    def is_timing(self) -> bool:
        return self._timings is not None

    @contextmanager
    def timing(self) -> Iterator[dict[str, list[float]]]:
        """Measure all launches of the block, by name, in milliseconds. The dictionary is filled at its end."""
        milliseconds: dict[str, list[float]] = {}
        timings: list[tuple[str, Any, Any]] = []
        self._timings = timings
        try:
            yield milliseconds
        finally:
            self._timings = None
        self.synchronize()
        for name, begin, end in timings:
            milliseconds.setdefault(name, []).append(begin.elapsed_time(end))

    def timed(self, name: str) -> AbstractContextManager[None]:
        """Measure the work queued in the block, inside of `timing`."""
        return nullcontext() if self._timings is None else self._between_events(name, self._timings)

    @contextmanager
    def _between_events(self, name: str, timings: list[tuple[str, Any, Any]]) -> Iterator[None]:
        begin = self._recorded(timing=True)
        yield
        timings.append((name, begin, self._recorded(timing=True)))


class SimulatedGpu(Gpu):
    """Numba's simulator. It runs blocks sequentially, so cooperative kernels have a single block."""

    name = "Numba's simulator"
    multiprocessors = 1
    capability = OLDEST
    shared_bytes = SHARED_BYTES

    def memory(self) -> tuple[int, int]:
        return 1 << 40, 1 << 40

    def pinned(self, size: int, dtype: Any) -> np.ndarray:
        return np.zeros(size, dtype)

    def most_blocks(self, kernel: Kernel, threads: int, shared: int) -> int:
        return 1


def blocks_for(gpu: Gpu, work: int) -> int:
    """Return the grid size of a kernel whose blocks loop over units of work."""
    return max(1, min(work, BLOCKS_PER_MULTIPROCESSOR * gpu.multiprocessors))


def ptx(kernel: Kernel, capability: tuple[int, int]) -> str:
    """Compile a kernel for a compute capability, without a GPU."""
    with _as_if_on(capability):
        code, _ = cuda.compile_ptx(kernel.function, void(*kernel.types), cc=capability)
    return str(code)


@contextmanager
def _as_if_on(capability: tuple[int, int]) -> Iterator[None]:
    """Make Numba compile for this compute capability, without a GPU."""
    device = SimpleNamespace(compute_capability=capability)
    modules = [import_module(f"numba.cuda.{name}") for name in ("dispatcher", "compiler")]
    originals = [module.get_current_device for module in modules]
    try:
        for module in modules:
            module.get_current_device = lambda: device  # type: ignore[attr-defined]
        yield
    finally:
        for module, original in zip(modules, originals, strict=True):
            module.get_current_device = original  # type: ignore[attr-defined]
