"""The ranks of an MPI job. No other module imports mpi4py."""

import ctypes
import functools
import os
import time
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import mpi4py
import numpy as np

mpi4py.rc.initialize = False  # MPICH kills processes that fail to initialize: check first
mpi4py.rc.finalize = True

from mpi4py import MPI  # noqa: E402

from neglm_cli.scale.ranks import pairwise_sum, split_evenly  # noqa: E402

Value = TypeVar("Value")
Result = TypeVar("Result")
Method = TypeVar("Method", bound=Callable[..., Any])

GPU_ARRAYS = "NEGLM_MPI_CUDA"  # 1 or 0: overrides the detection of a CUDA-aware library

# A failed rank waits for the others to fail too: for a multiple of the time since the last collective operation, which
# bounds the lag between ranks, and is longer on a busy machine.
WAIT_FACTOR = 3.0
MIN_WAIT, MAX_WAIT = 2.0, 60.0  # seconds


def library() -> str:
    """Return the vendor of the MPI library. MPI need not be initialized."""
    return MPI.get_vendor()[0]


def _collective(method: Method) -> Method:
    """Mark a collective operation and record when it returns: all ranks have then reached it."""

    @functools.wraps(method)
    def called(self: "MpiRanks", *given: Any) -> Any:
        result = method(self, *given)
        self._last_collective = time.monotonic()
        return result

    return called  # type: ignore[return-value]


class MpiRanks:
    """All ranks started by mpirun or the cluster's launcher."""

    def __init__(self) -> None:
        if not MPI.Is_initialized():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about a foreign launcher: `launch` raises instead
                MPI.Init_thread()
        self._world = MPI.COMM_WORLD
        self.rank, self.size = self._world.rank, self._world.size
        self._failures = self._world.Dup()
        self._node = self._world.Split_type(MPI.COMM_TYPE_SHARED)
        self.local_rank = self._node.rank
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        self.sharing_cores = self._node.allgather(cores).count(cores)
        self.bytes_sent = 0
        self.cuda_aware = _is_cuda_aware()
        self._communication = ThreadPoolExecutor(1, "communication")
        self._scratch = np.empty(0, np.uint8)
        self._last_collective = time.monotonic()

    @_collective
    def any(self, flag: bool) -> bool:
        return bool(self._world.allreduce(int(flag), MPI.MAX))

    @_collective
    def broadcast(self, value: Value) -> Value:
        return self._world.bcast(value)

    @_collective
    def allgather(self, value: Value) -> list[Value]:
        return self._world.allgather(value)

    @_collective
    def allreduce(self, array: np.ndarray) -> None:
        """Reduce-scatter, then allgather, like most libraries' Allreduce; but the sum is pairwise over ranks whatever
        the library, the number of ranks and the size."""
        starts = split_evenly(len(array), self.size)
        mine = slice(starts[self.rank], starts[self.rank + 1])
        length = mine.stop - mine.start
        parts = self._buffer(self.size * length, array.dtype).reshape(self.size, length)
        counts = np.diff(starts)
        self._world.Alltoallv([array, (counts, starts[:-1])], [parts, ([length] * self.size, None)])
        self.bytes_sent += array.nbytes - array[mine].nbytes
        total = array[mine]
        total[:] = pairwise_sum(parts)
        self._world.Allgatherv(MPI.IN_PLACE, [array, (counts, starts[:-1])])
        self.bytes_sent += (self.size - 1) * total.nbytes

    @_collective
    def allreduce_gpu(self, array: Any) -> None:
        self._world.Allreduce(MPI.IN_PLACE, array)
        self.bytes_sent += 2 * (self.size - 1) * array.nbytes // self.size

    @_collective
    def allgather_arrays(self, array: np.ndarray) -> np.ndarray:
        counts = np.array(self._world.allgather(len(array)))
        concatenated = np.empty(counts.sum(), array.dtype)
        self._world.Allgatherv(array, [concatenated, (counts, None)])
        self.bytes_sent += (self.size - 1) * array.nbytes
        return concatenated

    @_collective
    def gather_arrays(self, array: np.ndarray) -> np.ndarray:
        counts = np.array(self._world.allgather(len(array)))
        if self.rank:
            self._world.Gatherv(array, None)
            self.bytes_sent += array.nbytes
            return array
        concatenated = np.empty(counts.sum(), array.dtype)
        self._world.Gatherv(array, [concatenated, (counts, None)])
        return concatenated

    @_collective
    def alltoall(self, array: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        counts = np.asarray(counts, np.int64)
        received_counts = np.empty_like(counts)
        self._world.Alltoall(counts, received_counts)
        received = np.empty(received_counts.sum(), array.dtype)
        self._world.Alltoallv([array, (counts, None)], [received, (received_counts, None)])
        self.bytes_sent += int(counts.sum() - counts[self.rank]) * array.itemsize
        return received, received_counts

    def submit(self, function: Callable[..., Result], *arguments: Any) -> "Future[Result]":
        return self._communication.submit(function, *arguments)

    @_collective
    def run_staggered(self, function: Callable[[], Result]) -> Result:
        turn = 0 if self.rank == 0 else 1 if self.local_rank == 0 else 2
        result = function() if turn == 0 else None
        for now in (1, 2):
            self._barrier()
            if turn == now:
                result = function()
        self._barrier()
        return result  # type: ignore[return-value]  # set in this rank's turn

    def _barrier(self) -> None:
        """Wait for all ranks without spinning, unlike MPI libraries: ranks still at work need the cores."""
        request = self._world.Ibarrier()
        while not request.Test():
            time.sleep(0.01)

    def all_failed(self) -> bool:
        """Report the failure to rank 0, which waits for a report from every rank and replies to all. A rank 0 that
        has not failed does not reply."""
        if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
            return False
        comm = self._failures
        seconds = min(max(MIN_WAIT, WAIT_FACTOR * (time.monotonic() - self._last_collective)), MAX_WAIT)
        if self.rank:
            comm.isend(None, 0)
            return self._wait_for(1, 2 * seconds)  # rank 0 may fail later, and then waits as well
        all_reported = self._wait_for(self.size - 1, seconds)
        for rank in range(1, self.size) if all_reported else ():
            comm.isend(None, rank)
        return all_reported

    def _wait_for(self, messages: int, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while messages and time.monotonic() < end:
            if self._failures.iprobe():
                self._failures.recv()
                messages -= 1
            else:
                time.sleep(0.01)
        return not messages

    def finalize(self) -> None:
        self._communication.shutdown()
        MPI.Finalize()

    def abort(self, code: int) -> None:
        self._world.Abort(code)

    def _buffer(self, length: int, dtype: np.dtype) -> np.ndarray:
        """Return a scratch array, whose memory is reused by the next call."""
        size = length * dtype.itemsize
        if size > len(self._scratch):
            self._scratch = np.empty(size, np.uint8)
        return self._scratch[:size].view(dtype)


def _is_cuda_aware() -> bool:
    """Return True if the MPI library accepts arrays in GPU memory; the environment variable overrides its answer."""
    if GPU_ARRAYS in os.environ:
        return os.environ[GPU_ARRAYS] == "1"
    try:
        return bool(ctypes.CDLL(None).MPIX_Query_cuda_support())
    except (AttributeError, OSError):  # the library lacks this query
        return False
