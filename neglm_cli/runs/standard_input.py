"""Standard input, which can be read only once."""

from collections.abc import Sequence

from neglm_cli.errors import UsageError
from neglm_cli.store.output import STANDARD_STREAM


def refuse_repeated_stdin(paths: Sequence[str | None]) -> None:
    """Raise if standard input is named more than once."""
    if list(paths).count(STANDARD_STREAM) > 1:
        raise UsageError("standard input (-) can be read only once.")
