"""A GPU as Numba offers it.

No other module imports numba.cuda, owns arrays on a GPU or launches kernels: a successor of the package, or a test,
takes its place by standing in for `cuda` and `Gpu`. Kernels are plain functions until a GPU compiles them for itself.
They use no warp functions, so that Numba's simulator, which has none, runs the same code.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numba import cuda, float32, float64, int32, int64, uint64, void

FLOATS, MATRIX, DOUBLES = float32[::1], float32[:, ::1], float64[::1]
IDS, BITS = int32[::1], uint64[::1]
WHOLE, REAL = int64, float32
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


class Gpu:
    """One GPU, with a stream for work and one for copies that need not wait for it."""

    def __init__(self, number: int = 0) -> None:
        cuda.select_device(number)
        self._device = cuda.get_current_device()
        self._stream = cuda.stream()
        self._copies = cuda.stream()
        self._compiled: dict[tuple[str, int], Any] = {}
        self.launches = 0

    @property
    def name(self) -> str:
        name = self._device.name
        return str(name.decode() if isinstance(name, bytes) else name)

    @property
    def processors(self) -> int:
        return int(self._device.MULTIPROCESSOR_COUNT)

    @property
    def stream_handle(self) -> int:
        """For libraries that put work of their own in the same order."""
        return int(self._stream.handle)

    # --- arrays ---------------------------------------------------------------------------------------

    def zeros(self, shape: int | tuple[int, ...], dtype: Any = np.float32) -> Array:
        array = cuda.device_array(shape, dtype)
        for first in range(0, len(array), ROWS_AT_ONCE):
            part = array[first : first + ROWS_AT_ONCE]
            part.copy_to_device(np.zeros(part.shape, dtype))
        return array

    def upload(self, host: np.ndarray) -> Array:
        return cuda.to_device(np.ascontiguousarray(host))

    def download(self, array: Array) -> np.ndarray:
        """After all work that was begun."""
        self._stream.synchronize()
        return np.asarray(array.copy_to_host())

    def write(self, array: Array, host: np.ndarray) -> None:
        """After all work that was begun."""
        self._stream.synchronize()
        array.copy_to_device(np.ascontiguousarray(host))

    def address(self, array: Array) -> int:
        return int(array.device_ctypes_pointer.value)

    def pinned(self, size: int, dtype: Any) -> np.ndarray:
        """Memory of the host that is copied without its help."""
        return np.asarray(cuda.pinned_array(size, dtype))

    # --- work -----------------------------------------------------------------------------------------

    def launch(
        self, kernel: Kernel, blocks: int | tuple[int, ...], *arguments: Any, shared: int = 0, threads: int = 0
    ) -> None:
        self._compile(kernel)[blocks, threads or kernel.threads, self._stream, shared](*arguments)
        self.launches += 1

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
        array.copy_to_device(host, self._copies)
        there = cuda.event()
        there.record(self._copies)
        there.wait(self._stream)

    def copy_out(self, array: Array, host: np.ndarray) -> Signal:
        """Behind the work so far; the host does not wait."""
        array.copy_to_host(host, self._stream)
        event = cuda.event()
        event.record(self._stream)
        return event  # type: ignore[no-any-return]

    def synchronize(self) -> None:
        self._stream.synchronize()
