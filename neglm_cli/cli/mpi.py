"""A command under MPI: which rank prints, what all ranks must agree on, and how they exit."""

import os
import sys
import time
from contextlib import suppress
from typing import Any

from neglm_cli import __version__
from neglm_cli.cli.console import console
from neglm_cli.errors import NeglmError
from neglm_cli.scale.agreement import check_same
from neglm_cli.scale.launch import init_ranks, launched_rank_and_size, ranks
from neglm_cli.scale.launcher import STARTED
from neglm_cli.scale.ranks import Ranks

DISTRIBUTED = ("vocab", "embed", "train-lm", "eval", "filter")  # subcommands that run on several ranks

RANK_0_PRINTS = 5.0  # seconds that other ranks leave rank 0 to print an error


def join(arguments: list[str]) -> None:
    """Connect to the other ranks, if any. Rank 0 prints; the others print only errors."""
    rank, size = launched_rank_and_size()
    console.rank = rank if size > 1 else None
    ranks = init_ranks()
    if ranks.size == 1:
        console.rank = None
        return
    console.rank = ranks.rank
    if ranks.rank:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if STARTED in os.environ:
        from neglm_cli.cli.several_gpus import obey_starter

        obey_starter(ranks)
    check_same(ranks, "version of neglm", __version__, "install the same one on all machines")
    check_same(ranks, "arguments", arguments, "start all ranks with the same command")
    command = next((argument for argument in arguments if not argument.startswith("-")), "")
    if command and command not in DISTRIBUTED and not {"-h", "--help"} & set(arguments):
        raise NeglmError(f"`neglm {command}` runs in a single process: start it without mpirun")


def leave(code: int, sentence: str) -> int:
    """Print an error once for all ranks, and abort ranks that have not failed."""
    job = ranks()
    if job.size == 1:
        if not console.rank:
            _say(sentence)
        else:  # MPI did not start; if this rank exits, srun ends rank 0 before it has printed
            time.sleep(RANK_0_PRINTS)
        return code
    if job.rank == 0:
        _say(sentence)
    if not job.all_failed():
        if job.rank:
            _say(sentence)
        job.abort(code)
    job.finalize()
    return code


def _say(sentence: str) -> None:
    """Print an error; if that fails, the exit code still tells."""
    with suppress(OSError):
        console.error(sentence)
        sys.stderr.flush()


def traffic(ranks: Ranks) -> dict[str, Any]:
    """Return the fields of a summary for MPI; none for a single rank."""
    if ranks.size == 1:
        return {}
    return {"ranks": ranks.size, "bytes_sent": ranks.bytes_sent}


def traffic_text(summary: dict[str, Any]) -> list[str]:
    if "ranks" not in summary:
        return []
    return [f"  {'ranks':<16}{summary['ranks']}; rank 0 sent {summary['bytes_sent']:,} bytes"]
