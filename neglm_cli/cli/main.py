"""`neglm`: runs a subcommand and turns whatever goes wrong into one line and an exit code."""

import os
import sys
import traceback

import typer

from neglm_cli.cli.app import app
from neglm_cli.cli.console import console
from neglm_cli.cli.signals import Terminated, calm, watch
from neglm_cli.errors import NeglmError, shown

# isort: off
from neglm_cli.cli import vocab, phrases, embed, train_lm, eval, score, generate, next_  # noqa: F401
from neglm_cli.cli import nearest, analogy, pmi, plot, export, import_, info, doctor  # noqa: F401
# isort: on

DONE, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130
SIGNALLED = 128  # plus the number of the signal


def run(arguments: list[str]) -> int:
    """Run the command line; returns the exit code."""
    watch()
    try:
        code = app(arguments, prog_name="neglm", standalone_mode=False)
        sys.stdout.flush()
        if code == INTERRUPTED:
            calm()
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
        _explain("there is not enough memory: close other programs, or ask for less")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except OSError as error:
        where = shown(str(error.filename)) if error.filename else "standard output"
        _explain(f"cannot use {where}: {error.strerror or error}")
    except Terminated as signalled:
        calm()
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
