"""CUDA graphs: the launches and copies of a minibatch, captured once and queued again by a single call.

A graph keeps the arguments of its launches, so all that differs between minibatches of the same shape is read from GPU
memory: see `functions.STEP`.
"""

import weakref
from collections.abc import Callable, Hashable
from typing import Any

from neglm_cli.lm.cuda.gpu import IS_SIMULATED, Gpu

MOST_GRAPHS = 64  # later shapes are launched without


class GraphError(Exception):
    """The driver cannot capture, or cannot instantiate, a graph."""


class Graph:
    """Captured work of a stream."""

    def __init__(self, stream: int, executable: Any) -> None:
        from cuda.bindings import driver

        self._launch, self._stream, self._executable = driver.cuGraphLaunch, driver.CUstream(stream), executable
        weakref.finalize(self, driver.cuGraphExecDestroy, executable).atexit = False

    def launch(self) -> None:
        """Queue the work once more."""
        (status,) = self._launch(self._executable, self._stream)
        if status:
            raise RuntimeError(f"cuGraphLaunch failed: {status.name}")


def capture(gpu: Gpu, work: Callable[[], None]) -> Graph:
    """Capture what `work` queues, without running it. Raise GraphError if that fails."""
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise GraphError from error
    stream = driver.CUstream(gpu.stream_handle)
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED  # Numba may free memory meanwhile
    _checked(driver.cuStreamBeginCapture(stream, mode))
    failure: BaseException | None = None
    try:
        work()
    except BaseException as error:  # a launch that cannot be captured, or a signal: the stream must be usable again
        failure = error
    status, graph = driver.cuStreamEndCapture(stream)
    try:
        if isinstance(failure, Exception):  # launched without a graph, the work shows if it is wrong
            raise GraphError from failure
        if failure is not None:
            raise failure
        _checked((status,))
        return Graph(gpu.stream_handle, _checked(driver.cuGraphInstantiate(graph, 0)))
    finally:
        if not status:
            driver.cuGraphDestroy(graph)


def _checked(result: tuple[Any, ...]) -> Any:
    status, *values = result
    if status:
        raise GraphError(status.name)
    return values[0] if values else None


class GraphCache:
    """Graphs by key: everything that launches depend on, except for the contents of GPU memory.

    A key's first use is launched without a graph, which compiles kernels and is cheaper for shapes that occur once; the
    second captures its graph.
    """

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._graphs: dict[Hashable, Graph | None] = {}
        self._enabled = not IS_SIMULATED

    def run(self, key: Hashable, work: Callable[[], None]) -> None:
        """Queue the work, by its graph if possible; without, if the GPU measures single launches."""
        if not self._enabled or self._gpu.is_timing or (key not in self._graphs and len(self._graphs) == MOST_GRAPHS):
            work()
            return
        if key not in self._graphs:
            self._graphs[key] = None
            work()
            return
        graph = self._graphs[key]
        if graph is None:
            try:
                graph = self._graphs[key] = capture(self._gpu, work)
            except GraphError:
                self._enabled = False
                work()
                return
        graph.launch()
        self._gpu.launches += 1
