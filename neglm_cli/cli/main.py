"""`neglm`: runs a subcommand and turns whatever goes wrong into one line and an exit code."""

import os
import sys
import traceback

import typer

from neglm_cli.cli import usage
from neglm_cli.cli.app import app
from neglm_cli.cli.console import console
from neglm_cli.cli.processes import join, leave
from neglm_cli.cli.progress import Progress
from neglm_cli.cli.signals import Terminated, calm, undisturbed, watch
from neglm_cli.errors import NeglmError, shown
from neglm_cli.scale.launch import ranks
from neglm_cli.store.watching import show_with

# isort: off
from neglm_cli.cli import vocab, phrases, embed, train_lm, eval, score, generate, next_  # noqa: F401
from neglm_cli.cli import nearest, analogy, pmi, plot, export, import_, info, doctor  # noqa: F401
# isort: on

DONE, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130
SIGNALLED = 128  # plus the number of the signal


def run(arguments: list[str]) -> int:
    """Run the command line; returns the exit code."""
    watch()
    show_with(Progress)
    code, sentence = _run(arguments)
    if sentence:
        with undisturbed():  # srun signals who is still leaving when another has left
            return leave(code, sentence)
    ranks().finish()
    return code


def _run(arguments: list[str]) -> tuple[int, str]:
    """The exit code, and what is to be said if something has gone wrong."""
    try:
        join(arguments)
        code = app(arguments, prog_name="neglm", standalone_mode=False)
        sys.stdout.flush()
        if code == INTERRUPTED:
            calm()
            return code, "interrupted"
        return code if isinstance(code, int) else DONE, ""
    except typer.TyperException as error:  # the options are wrong
        return WRONG_USAGE, usage.sentence(error, arguments)
    except NeglmError as error:
        return _failed(str(error))
    except MemoryError:
        return _failed("there is not enough memory: close other programs, or ask for less")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE, ""
    except OSError as error:
        where = shown(str(error.filename)) if error.filename else "standard output"
        return _failed(f"cannot use {where}: {error.strerror or error}")
    except Terminated as signalled:
        calm()
        return SIGNALLED + int(signalled.args[0]), "terminated"
    except Exception as error:
        return _failed(f"unexpected {type(error).__name__}: {error}; please report it, with what --debug prints")


def _failed(sentence: str) -> tuple[int, str]:
    """Of the exception that is being handled."""
    if console.debug:
        traceback.print_exc()
    return FAILED, sentence
