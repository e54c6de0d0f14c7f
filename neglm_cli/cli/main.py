"""`neglm`: run a subcommand, and turn any error into one line and an exit code."""

import os
import sys
import traceback
from collections.abc import Iterable
from importlib import import_module

import typer

from neglm_cli.cli import usage
from neglm_cli.cli.app import app
from neglm_cli.cli.console import console
from neglm_cli.cli.mpi import join, leave
from neglm_cli.cli.progress import Progress
from neglm_cli.cli.signals import Terminated, ignore, outcome, raised, watch
from neglm_cli.errors import NeglmError, UsageError, shown
from neglm_cli.scale.launch import ranks
from neglm_cli.store.progress import set_progress

COMMANDS = (
    "vocab", "phrases", "tokenize", "embed", "train-lm", "eval", "score", "filter", "generate", "next", "nearest",
    "analogy", "vectors", "pmi", "plot", "export", "import", "info", "cache", "doctor",
)  # fmt: skip  # in the order of the help
MODULES = {"next": "next_", "import": "import_"}  # whose names are Python's

DONE, FAILED, WRONG_USAGE = 0, 1, 2


def import_commands(names: Iterable[str] = COMMANDS) -> None:
    """Import the modules of subcommands, which then belong to `app`."""
    for name in names:
        import_module(f"neglm_cli.cli.{MODULES.get(name, name.replace('-', '_'))}")


def run(arguments: list[str]) -> int:
    """Run the command line and return the exit code. Signals are ignored from then on."""
    watch()
    set_progress(Progress)
    sentence = ""
    try:
        import_commands(arguments[:1] if arguments and arguments[0] in COMMANDS else COMMANDS)
        join(arguments)
        returned = app(arguments, prog_name="neglm", standalone_mode=False)
        sys.stdout.flush()
        code = returned if isinstance(returned, int) else DONE
        ignore()
    except (Exception, Terminated) as error:
        ignore()  # srun signals ranks that are still leaving when another has left
        code, sentence = _explain(error, arguments)
    if sentence:
        return leave(code, sentence)
    ranks().finalize()
    return code


def _explain(error: BaseException, arguments: list[str]) -> tuple[int, str]:
    """Return the exit code and the message for an error."""
    if raised():
        return outcome(raised())
    match error:
        case Terminated():  # a signal that was noted first
            return outcome(error.args[0])
        case typer.TyperException():  # the options are wrong
            return WRONG_USAGE, usage.sentence(error, arguments)
        case UsageError():
            return WRONG_USAGE, usage.with_advice(str(error), arguments)
        case BrokenPipeError():
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return DONE, ""
    if console.debug:
        console.trace("".join(traceback.format_exception(error)))
    match error:
        case NeglmError():
            return FAILED, str(error)
        case MemoryError():
            return FAILED, "out of memory: close other programs, or use smaller settings"
        case OSError():
            return FAILED, _of_system(error)
    return FAILED, f"unexpected {type(error).__name__}: {error}; please report it, with what --debug prints"


def _of_system(error: OSError) -> str:
    """Return the message for a failed system call, with the file if it is known."""
    reason = error.strerror or str(error)
    if error.filename:
        return f"cannot use {shown(str(error.filename))}: {reason}"
    return f"the system refused an operation: {reason}; --debug shows which one"
