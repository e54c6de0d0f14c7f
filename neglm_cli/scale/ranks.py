"""The processes of a job, as each of them sees the others.

Every process makes the same calls in the same order, each with its own part. What is added up is added in pairs of
ranks, then in pairs of these, so that all of them get the same bits, and get them again in the next run.
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
    local_rank: int  # among the processes of this machine
    sharing: int  # processes of this machine that run on the same cores
    sent: int  # bytes of arrays that this process has sent to others
    reaches_gpus: bool  # whether `sum_on_gpu` can be used

    def any(self, flag: bool) -> bool:
        """Whether one says so."""
        ...

    def share(self, value: Value) -> Value:
        """What the first process has."""
        ...

    def all(self, value: Value) -> list[Value]:
        """What each has."""
        ...

    def sum(self, array: "np.ndarray") -> None:
        """Add up what all have in an array of one dimension, in place."""
        ...

    def sum_on_gpu(self, array: Any) -> None:
        """The same for an array in the memory of a GPU; the order is the library's."""
        ...

    def collect(self, array: "np.ndarray") -> "np.ndarray":
        """The arrays of all, one behind the other; they have one dimension and one type."""
        ...

    def collect_at_first(self, array: "np.ndarray") -> "np.ndarray":
        """The same for the first process; the others get what they gave."""
        ...

    def exchange(self, array: "np.ndarray", counts: "np.ndarray") -> "tuple[np.ndarray, np.ndarray]":
        """Give counts[r] elements of an array to each rank r; returns what they gave, and how many each."""
        ...

    def start(self, function: Callable[..., Result], *arguments: Any) -> "Future[Result]":
        """Do something that talks to the others, while this thread goes on with something that does not."""
        ...

    def in_turn(self, function: Callable[[], Result]) -> Result:
        """Something that leaves a file behind which others can use: the first process does it first, then one on each
        other machine, then the others."""
        ...

    def all_fail(self) -> bool:
        """Called by a process that cannot go on, in place of anything else: whether none can, so that all may leave."""
        ...

    def finish(self) -> None:
        """Finalize MPI. The launcher takes a rank that exits without this for crashed, and kills the others."""
        ...

    def abort(self, code: int) -> None:
        """End the whole job at once."""
        ...


class Alone:
    """One process."""

    rank = local_rank = sent = 0
    size = sharing = 1
    reaches_gpus = False

    def any(self, flag: bool) -> bool:
        return flag

    def share(self, value: Value) -> Value:
        return value

    def all(self, value: Value) -> list[Value]:
        return [value]

    def sum(self, array: "np.ndarray") -> None:
        pass

    def sum_on_gpu(self, array: Any) -> None:
        pass

    def collect(self, array: "np.ndarray") -> "np.ndarray":
        return array

    def collect_at_first(self, array: "np.ndarray") -> "np.ndarray":
        return array

    def exchange(self, array: "np.ndarray", counts: "np.ndarray") -> "tuple[np.ndarray, np.ndarray]":
        return array, counts

    def start(self, function: Callable[..., Result], *arguments: Any) -> "Future[Result]":
        done: Future[Result] = Future()
        done.set_result(function(*arguments))
        return done

    def in_turn(self, function: Callable[[], Result]) -> Result:
        return function()

    def all_fail(self) -> bool:
        return True

    def finish(self) -> None:
        pass

    def abort(self, code: int) -> None:
        pass


ALONE = Alone()


def add_in_pairs(parts: "np.ndarray") -> "np.ndarray":
    """The sum of all parts, ((0 + 1) + (2 + 3)) + …; they are used up for it."""
    distance = 1
    while distance < len(parts):
        for left in range(0, len(parts) - distance, 2 * distance):
            parts[left] += parts[left + distance]
        distance *= 2
    return parts[0]


def shares(total: int, parts: int) -> list[int]:
    """Where each part begins, and the end: as equal as can be."""
    return [total * part // parts for part in range(parts + 1)]
