"""Training states: checkpoints next to the output, named like it with `.partial` appended."""

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from neglm_cli.errors import NeglmError, UsageError, shown
from neglm_cli.store.output import is_regular_output

PARTIAL = ".partial"


def state_path(output: str) -> str:
    """Return the path of the training state; empty if the output is not a regular file."""
    return output + PARTIAL if is_regular_output(output) else ""


def last_state(state: str) -> str:
    """Say whether the last state is still on disk, for the error of a failed run."""
    if not os.path.exists(state):
        return f"{shown(state)}, which had the last good state, is gone"
    return f"{shown(state)} has the last good state"


def refuse_unfinished(output: str) -> None:
    """Raise if a new run would replace the state of an interrupted one, which may be days of work."""
    state = state_path(output)
    if state and os.path.exists(state):
        raise UsageError(
            f"{shown(state)} is a training that is not finished: go on with --resume, or delete it to start again."
        )


def nothing_to_resume(output: str, start_from: str) -> NeglmError:
    """Return the error for --resume without a state. start_from: the option that starts from a file's vectors."""
    if not os.path.exists(output):
        return NeglmError(f"nothing to resume: {shown(output + PARTIAL)} does not exist; start without --resume")
    name = shown(output)
    return NeglmError(
        f"{name} is finished, and only an unfinished training can be resumed: to train for more epochs, start again "
        f"without --resume; with {start_from} {name} and another output, a new training starts from its vectors"
    )


def note_replacing(output: str, note: Callable[[str], None]) -> None:
    """Say which finished result the run will replace."""
    if state_path(output) and os.path.exists(output):
        written = time.strftime("%Y-%m-%d %H:%M", time.localtime(os.path.getmtime(output)))
        note(f"this training will replace {shown(output)} (written {written})")


def refuse_changes(started: Any, given: dict[str, Any], resumable: Sequence[str] = ()) -> None:
    """Raise if a setting differs from that of the run being resumed. resumable: settings that may change."""
    for name, value in given.items():
        if getattr(started, name) != value and name not in resumable:
            option = name.replace("_", "-")
            raise NeglmError(
                f"this training was started with --{option} {getattr(started, name)}: leave out --{option}, or start "
                "again without --resume"
            )
