"""A simulated GPU with the latest schedule that CUDA allows: the stream runs only when the host waits
for it. A buffer that is overwritten before queued work reads it causes wrong results.

`Gpu` itself is the real one, with its stream, events and copies; only the simulator below it is replaced.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray

from neglm_cli.lm.cuda import gpu
from tests.lm.cuda.executors import TurnTakingGpu

GARBAGE = 97  # value of uninitialized memory


class Stream:
    """Operations run in order, as late as possible."""

    def __init__(self) -> None:
        self._queue: deque[Callable[[], object]] = deque()
        self._run = self.queued = 0

    def put(self, operation: Callable[[], object]) -> None:
        self._queue.append(operation)
        self.queued += 1

    def run_to(self, position: int) -> None:
        while self._run < position:
            self._run += 1
            self._queue.popleft()()

    def synchronize(self) -> None:
        self.run_to(self.queued)


class Event:
    def record(self, stream: Stream) -> None:
        self._stream, self._position = stream, stream.queued

    def synchronize(self) -> None:
        self._stream.run_to(self._position)


class LateArray(FakeCUDAArray):
    """An array whose copies are queued on the named stream; using the default stream, which nothing waits for, is an
    error."""

    def __getitem__(self, index: Any) -> Any:
        part = super().__getitem__(index)
        return LateArray(part._ary) if isinstance(part, FakeCUDAArray) else part

    def reshape(self, *shape: Any) -> "LateArray":
        return LateArray(self._ary.reshape(*shape))

    def copy_to_device(self, host: np.ndarray, stream: Any = 0) -> None:
        assert isinstance(stream, Stream), "a copy on the default stream"
        stream.put(lambda: np.copyto(self._ary, host.reshape(self._ary.shape)))

    def copy_to_host(self, host: np.ndarray | None = None, stream: Any = 0) -> np.ndarray:
        assert isinstance(stream, Stream), "a copy on the default stream"
        result = np.empty_like(self._ary) if host is None else host
        stream.put(lambda: np.copyto(result, self._ary))
        return result


def _uninitialized(shape: Any, dtype: Any) -> LateArray:
    return LateArray(np.full(shape, GARBAGE, dtype))


class LateKernel:
    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel

    def __getitem__(self, configuration: tuple[Any, ...]) -> Callable[..., None]:
        _, _, stream, _ = configuration
        return lambda *arguments: stream.put(lambda: self._kernel[configuration](*arguments))


class LateGpu(TurnTakingGpu):
    """A GPU with a late stream."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(gpu.cuda, "event", Event)
        monkeypatch.setattr(gpu.cuda, "device_array", _uninitialized)
        super().__init__()
        self._stream = Stream()

    def _compile(self, kernel: gpu.Kernel) -> LateKernel:
        return LateKernel(super()._compile(kernel))
