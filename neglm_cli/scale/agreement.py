"""What all processes of a job must have in common."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from neglm_cli.errors import NeglmError
from neglm_cli.scale.ranks import Ranks

Result = TypeVar("Result")


def check_same(ranks: Ranks, what: str, mine: Any, advice: str) -> None:
    """Refuse a job in which processes have different values: all of them do, for the same reason."""
    values = ranks.all(mine)
    if odd := [rank for rank, value in enumerate(values) if value != values[0]]:
        raise NeglmError(
            f"{_named(odd)} {what} as rank 0: {_short(values[odd[0]])} and not {_short(values[0])}; {advice}"
        )


def from_first(ranks: Ranks, function: Callable[[], Result]) -> Result:
    """What the first process makes, for all."""
    result: Result = ranks.share(at_first(ranks, function))  # type: ignore[assignment]  # made by the first
    return result


def at_first(ranks: Ranks, function: Callable[[], Result]) -> Result | None:
    """Let the first process do something. Where it cannot, none of them goes on."""
    result, failure = None, None
    if ranks.rank == 0:
        try:
            result = function()
        except NeglmError as error:
            failure = error
    failure = ranks.share(failure)
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
