"""Checkpoints: files next to the output, named like it with `.partial` appended."""

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from neglm_cli.errors import NeglmError, UsageError, shown
from neglm_cli.store.output import is_regular_output

CHECKPOINT_SUFFIX = ".partial"
CHECKPOINT_INTERVAL = 60  # seconds, by default


def checkpoint_path(output: str) -> str:
    """Return the path of the checkpoint; empty if the output is not a regular file."""
    return output + CHECKPOINT_SUFFIX if is_regular_output(output) else ""


def describe_last_checkpoint(path: str) -> str:
    """Say whether the last checkpoint is still on disk, for the error of a failed run."""
    if not os.path.exists(path):
        return f"{shown(path)}, the last good checkpoint, is gone"
    return f"{shown(path)} is the last good checkpoint"


def refuse_unfinished(output: str) -> None:
    """Raise if a new run would replace the checkpoint of an interrupted one, which may be days of work."""
    path = checkpoint_path(output)
    if path and os.path.exists(path):
        raise UsageError(f"{shown(path)} is an unfinished run: continue it with --resume, or delete it to start again.")


def check_resumable(output: str) -> None:
    """Raise if --resume is given for an output that has no checkpoints, as a pipe."""
    if not checkpoint_path(output):
        raise UsageError("--resume needs the output of the interrupted run: name it with --output.")


def checkpoint_to_resume(output: str) -> str:
    """Return the path of the checkpoint. Raise if there is none."""
    path = output + CHECKPOINT_SUFFIX
    if os.path.exists(path):
        return path
    if not os.path.exists(output):
        raise NeglmError(f"nothing to resume: {shown(path)} does not exist; start without --resume")
    name = shown(output)
    raise NeglmError(
        f"{name} is finished, and only an unfinished training can be resumed: to train for more epochs, start again "
        f"without --resume; with --init-vectors {name} and another output, a new training starts from its vectors"
    )


def note_replacing(output: str, note: Callable[[str], None]) -> None:
    """Say which finished result the run will replace."""
    if checkpoint_path(output) and os.path.exists(output):
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
