"""The ranks of a job and their collective operations, with MPI's names.

All ranks make the same calls in the same order. Sums are pairwise over ranks, ((0 + 1) + (2 + 3)) + …, so that all
ranks get the same bits, in every run.
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    import numpy as np

Value = TypeVar("Value")
Result = TypeVar("Result")


class Ranks(Protocol):
    rank: int
    size: int
    local_rank: int  # on this machine
    sharing_cores: int  # ranks of this machine with the same CPU affinity as this one
    bytes_sent: int  # in arrays, by this rank
    cuda_aware: bool  # `allreduce_gpu` is available

    def any(self, flag: bool) -> bool:
        """Return True if any rank passes True."""
        ...

    def broadcast(self, value: Value) -> Value:
        """Return rank 0's value."""
        ...

    def allgather(self, value: Value) -> list[Value]:
        """Return the values of all ranks, by rank."""
        ...

    def allreduce(self, array: "np.ndarray") -> None:
        """Sum a 1-d array over all ranks, in place."""
        ...

    def allreduce_gpu(self, array: Any) -> None:
        """Sum an array in GPU memory over all ranks, in place; the MPI library chooses the order."""
        ...

    def allgather_arrays(self, array: "np.ndarray") -> "np.ndarray":
        """Concatenate the ranks' 1-d arrays. They have the same dtype; lengths may differ."""
        ...

    def gather_arrays(self, array: "np.ndarray") -> "np.ndarray":
        """Concatenate the ranks' 1-d arrays on rank 0; the other ranks get their own array back."""
        ...

    def alltoall(self, array: "np.ndarray", counts: "np.ndarray") -> "tuple[np.ndarray, np.ndarray]":
        """Send the next counts[r] elements of an array to each rank r. Return the elements received, by rank, and
        their counts."""
        ...

    def submit(self, function: Callable[..., Result], *arguments: Any) -> "Future[Result]":
        """Run communication in the background. Until it is done, the caller must not communicate."""
        ...

    def run_staggered(self, function: Callable[[], Result]) -> Result:
        """Call a function that fills a cache on disk: on rank 0 first, then on one rank of each other machine, then on
        the rest."""
        ...

    def all_failed(self) -> bool:
        """Return True if all ranks have failed and can exit at once. Called by a rank that cannot continue, instead
        of any other collective operation."""
        ...

    def finalize(self) -> None:
        """Finalize MPI. If a rank exits without it, the launcher assumes a crash and kills the others."""
        ...

    def abort(self, code: int) -> None:
        """Kill all ranks of the job."""
        ...


class SingleRank:
    """A job of one rank: collective operations return their arguments."""

    rank = local_rank = bytes_sent = 0
    size = sharing_cores = 1
    cuda_aware = False

    def any(self, flag: bool) -> bool:
        return flag

    def broadcast(self, value: Value) -> Value:
        return value

    def allgather(self, value: Value) -> list[Value]:
        return [value]

    def allreduce(self, array: "np.ndarray") -> None:
        pass

    def allreduce_gpu(self, array: Any) -> None:
        pass

    def allgather_arrays(self, array: "np.ndarray") -> "np.ndarray":
        return array

    def gather_arrays(self, array: "np.ndarray") -> "np.ndarray":
        return array

    def alltoall(self, array: "np.ndarray", counts: "np.ndarray") -> "tuple[np.ndarray, np.ndarray]":
        return array, counts

    def submit(self, function: Callable[..., Result], *arguments: Any) -> "Future[Result]":
        done: Future[Result] = Future()
        done.set_result(function(*arguments))
        return done

    def run_staggered(self, function: Callable[[], Result]) -> Result:
        return function()

    def all_failed(self) -> bool:
        return True

    def finalize(self) -> None:
        pass

    def abort(self, code: int) -> None:
        pass


SINGLE_RANK = SingleRank()


def pairwise_sum(parts: "np.ndarray") -> "np.ndarray":
    """Sum an array over its first axis, ((0 + 1) + (2 + 3)) + …, overwriting it."""
    distance = 1
    while distance < len(parts):
        for left in range(0, len(parts) - distance, 2 * distance):
            parts[left] += parts[left + distance]
        distance *= 2
    return parts[0]


def split_evenly(total: int, parts: int) -> list[int]:
    """Split range(total) into parts of nearly equal length. Return their parts + 1 bounds."""
    return [total * part // parts for part in range(parts + 1)]
