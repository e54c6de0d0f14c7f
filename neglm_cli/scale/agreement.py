"""Checks that all ranks agree, and work that rank 0 does for all."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from neglm_cli.errors import NeglmError
from neglm_cli.scale.ranks import Ranks

Result = TypeVar("Result")


def check_same(ranks: Ranks, what: str, mine: Any, advice: str) -> None:
    """Raise the same error on all ranks if their values differ."""
    values = ranks.allgather(mine)
    if odd := [rank for rank, value in enumerate(values) if value != values[0]]:
        raise NeglmError(
            f"{_named(odd)} {what} as rank 0: {_short(values[odd[0]])} and not {_short(values[0])}; {advice}"
        )


def broadcast_from_rank0(ranks: Ranks, function: Callable[[], Result]) -> Result:
    """Call a function on rank 0 and return its result on all ranks."""
    result: Result = ranks.broadcast(on_rank0(ranks, function))  # type: ignore[assignment]  # never None on rank 0
    return result


def on_rank0(ranks: Ranks, function: Callable[[], Result]) -> Result | None:
    """Call a function on rank 0; return None on the others. All ranks wait for it, and all raise its error."""
    result, failure = None, None
    if ranks.rank == 0:
        try:
            result = function()
        except NeglmError as error:
            failure = error
    failure = ranks.broadcast(failure)
    if failure is not None:
        raise failure
    return result


def _named(odd: Sequence[int]) -> str:
    if len(odd) == 1:
        return f"rank {odd[0]} does not have the same"
    return f"ranks {', '.join(map(str, odd[:4]))}{' and others' if len(odd) > 4 else ''} do not have the same"


def _short(value: Any) -> str:
    text = " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return repr(text if len(text) <= 100 else text[:99] + "…")
