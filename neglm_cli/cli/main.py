"""`neglm`: runs a subcommand and turns whatever goes wrong into one line and an exit code."""

import os
import signal
import sys
import traceback

import typer

from neglm_cli.cli.app import app
from neglm_cli.cli.console import console
from neglm_cli.errors import NeglmError, shown

# isort: off
from neglm_cli.cli import vocab, nearest, analogy, eval, pmi, export, import_, info  # noqa: F401  (in the order of --help)
# isort: on

DONE, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130
SIGNALLED = 128  # plus the number of the signal
TRY_AGAIN = 5.0  # seconds; cleaning up takes less


class Terminated(BaseException):
    """SIGTERM or SIGHUP: an exception, so that unfinished files are removed on the way out."""


def _terminate(number: int, frame: object) -> None:
    """Raise; and again after a while, in case that was where exceptions get lost (a finalizer, a callback)."""
    signal.signal(signal.SIGALRM, lambda alarm, frame: _terminate(number, frame))
    signal.setitimer(signal.ITIMER_REAL, TRY_AGAIN)
    raise Terminated(number)


def run(arguments: list[str]) -> int:
    """Run the command line; returns the exit code."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup has SIGHUP ignored
            signal.signal(number, _terminate)
    try:
        code = app(arguments, prog_name="neglm", standalone_mode=False)
        sys.stdout.flush()
        if code == INTERRUPTED:
            console.error("interrupted")
        return code if isinstance(code, int) else DONE
    except typer.TyperException as error:  # the options are wrong
        if message := error.format_message():  # `neglm` alone shows the help and has no message
            stop = "" if message.endswith((".", "?", ")")) else "."
            console.error(f"{message}{stop} See `{_command(error)} --help`.")
        return WRONG_USAGE
    except NeglmError as error:
        _explain(str(error))
    except MemoryError:
        _explain("there is not enough memory: close other programs, or use fewer --threads and less --memory")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except OSError as error:
        where = shown(str(error.filename)) if error.filename else "standard output"
        _explain(f"cannot use {where}: {error.strerror or error}")
    except Terminated as signalled:
        signal.setitimer(signal.ITIMER_REAL, 0)
        console.error("terminated")
        return SIGNALLED + int(signalled.args[0])
    except Exception as error:
        _explain(f"unexpected {type(error).__name__}: {error}; please report it, with what --debug prints")
    return FAILED


def _explain(sentence: str) -> None:
    if console.debug:
        traceback.print_exc()
    console.error(sentence)


def _command(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    return context.command_path if context else "neglm"
