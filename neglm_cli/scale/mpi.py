"""The processes of an MPI job. No other module knows MPI."""

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

mpi4py.rc.initialize = False  # MPICH ends a process that it cannot join: what can be said is said before
mpi4py.rc.finalize = True

from mpi4py import MPI  # noqa: E402

from neglm_cli.scale.ranks import add_in_pairs, shares  # noqa: E402

Value = TypeVar("Value")
Result = TypeVar("Result")
Method = TypeVar("Method", bound=Callable[..., Any])

GPU_ARRAYS = "NEGLM_MPI_CUDA"  # 1 or 0: whether arrays go straight from a GPU to MPI

# How long a rank that fails waits for the others to fail, too: some times as long as the ranks have been on their own,
# because that is how far apart they can be, on a busy machine more than on an idle one.
APART = 3.0
LEAST, LONGEST = 2.0, 60.0  # seconds


def library() -> str:
    """Whose MPI it is; it need not have been started."""
    return MPI.get_vendor()[0]


def _collective(method: Method) -> Method:
    """A method that all ranks call: when it returns, they are in step."""

    @functools.wraps(method)
    def called(self: "MpiRanks", *given: Any) -> Any:
        result = method(self, *given)
        self.in_step = time.monotonic()
        return result

    return called  # type: ignore[return-value]


class MpiRanks:
    """All processes that mpirun, or what the cluster has instead, has started."""

    def __init__(self) -> None:
        if not MPI.Is_initialized():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of a launcher that is not the library's: `launch` says so
                MPI.Init_thread()
        self._all = MPI.COMM_WORLD
        self.rank, self.size = self._all.rank, self._all.size
        self._failing = self._all.Dup()
        self._here = self._all.Split_type(MPI.COMM_TYPE_SHARED)
        self.local_rank = self._here.rank
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        self.sharing = self._here.allgather(cores).count(cores)
        self.sent = 0
        self.reaches_gpus = _reaches_gpus()
        self._messenger = ThreadPoolExecutor(1, "messenger")
        self._room = np.empty(0, np.uint8)
        self.in_step = time.monotonic()  # when the ranks last were

    @_collective
    def any(self, flag: bool) -> bool:
        return bool(self._all.allreduce(int(flag), MPI.MAX))

    @_collective
    def share(self, value: Value) -> Value:
        return self._all.bcast(value)

    @_collective
    def all(self, value: Value) -> list[Value]:
        return self._all.allgather(value)

    @_collective
    def sum(self, array: np.ndarray) -> None:
        """Each rank adds up a stretch of the array, and gives it to all: like most libraries' Allreduce, but in pairs
        of ranks whatever the library, the number of processes and the size."""
        starts = shares(len(array), self.size)
        mine = slice(starts[self.rank], starts[self.rank + 1])
        length = mine.stop - mine.start
        parts = self._buffer(self.size * length, array.dtype).reshape(self.size, length)
        counts = np.diff(starts)
        self._all.Alltoallv([array, (counts, starts[:-1])], [parts, ([length] * self.size, None)])
        self.sent += array.nbytes - array[mine].nbytes
        total = array[mine]
        total[:] = add_in_pairs(parts)
        self._all.Allgatherv(MPI.IN_PLACE, [array, (counts, starts[:-1])])
        self.sent += (self.size - 1) * total.nbytes

    @_collective
    def sum_on_gpu(self, array: Any) -> None:
        self._all.Allreduce(MPI.IN_PLACE, array)
        self.sent += 2 * (self.size - 1) * array.nbytes // self.size

    @_collective
    def collect(self, array: np.ndarray) -> np.ndarray:
        counts = np.array(self._all.allgather(len(array)))
        everything = np.empty(counts.sum(), array.dtype)
        self._all.Allgatherv(array, [everything, (counts, None)])
        self.sent += (self.size - 1) * array.nbytes
        return everything

    @_collective
    def collect_at_first(self, array: np.ndarray) -> np.ndarray:
        counts = np.array(self._all.allgather(len(array)))
        if self.rank:
            self._all.Gatherv(array, None)
            self.sent += array.nbytes
            return array
        everything = np.empty(counts.sum(), array.dtype)
        self._all.Gatherv(array, [everything, (counts, None)])
        return everything

    @_collective
    def exchange(self, array: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        counts = np.asarray(counts, np.int64)
        coming = np.empty_like(counts)
        self._all.Alltoall(counts, coming)
        received = np.empty(coming.sum(), array.dtype)
        self._all.Alltoallv([array, (counts, None)], [received, (coming, None)])
        self.sent += int(counts.sum() - counts[self.rank]) * array.itemsize
        return received, coming

    def start(self, function: Callable[..., Result], *arguments: Any) -> "Future[Result]":
        return self._messenger.submit(function, *arguments)

    @_collective
    def in_turn(self, function: Callable[[], Result]) -> Result:
        turn = 0 if self.rank == 0 else 1 if self.local_rank == 0 else 2
        result = function() if turn == 0 else None
        for now in (1, 2):
            self._meet()
            if turn == now:
                result = function()
        self._meet()
        return result  # type: ignore[return-value]  # everyone has had a turn

    def _meet(self) -> None:
        """A barrier that leaves the cores to who is still at work: MPI libraries wait at full speed."""
        everyone = self._all.Ibarrier()
        while not everyone.Test():
            time.sleep(0.01)

    def all_fail(self) -> bool:
        """Who fails tells the first process; it waits a moment for all, and tells them so. If it is at work itself, it
        does not listen, and they are left without an answer."""
        if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
            return False
        comm = self._failing
        seconds = min(max(LEAST, APART * (time.monotonic() - self.in_step)), LONGEST)
        if self.rank:
            comm.isend(None, 0)
            return self._wait_for(1, 2 * seconds)  # the first rank may fail later than this one, and then waits itself
        everyone = self._wait_for(self.size - 1, seconds)
        for rank in range(1, self.size) if everyone else ():
            comm.isend(None, rank)
        return everyone

    def _wait_for(self, messages: int, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while messages and time.monotonic() < end:
            if self._failing.iprobe():
                self._failing.recv()
                messages -= 1
            else:
                time.sleep(0.01)
        return not messages

    def finish(self) -> None:
        self._messenger.shutdown()
        MPI.Finalize()

    def abort(self, code: int) -> None:
        self._all.Abort(code)

    def _buffer(self, length: int, dtype: np.dtype) -> np.ndarray:
        """Room that is used again."""
        size = length * dtype.itemsize
        if size > len(self._room):
            self._room = np.empty(size, np.uint8)
        return self._room[:size].view(dtype)


def _reaches_gpus() -> bool:
    """Whether the library says that it takes arrays in a GPU's memory. The user's word counts more."""
    if GPU_ARRAYS in os.environ:
        return os.environ[GPU_ARRAYS] == "1"
    try:
        return bool(ctypes.CDLL(None).MPIX_Query_cuda_support())
    except (AttributeError, OSError):  # the library has no such question
        return False
