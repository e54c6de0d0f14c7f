"""`neglm`: run a subcommand, and turn any error into one line and an exit code."""

import os
import sys
import traceback

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

# isort: off
from neglm_cli.cli import vocab, phrases, embed, train_lm, eval, score, filter, generate, next_  # noqa: F401
from neglm_cli.cli import nearest, analogy, vectors, pmi, plot, export, import_, info, cache, doctor  # noqa: F401
# isort: on

DONE, FAILED, WRONG_USAGE = 0, 1, 2


def run(arguments: list[str]) -> int:
    """Run the command line and return the exit code. Signals are ignored from then on."""
    watch()
    set_progress(Progress)
    sentence = ""
    try:
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
