"""One command in several processes: who speaks, what all must have in common, and how they end together."""

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
from neglm_cli.scale.ranks import Ranks

TOGETHER = ("vocab", "embed", "train-lm", "eval")  # subcommands that several processes can share

FIRST_SPEAKS = 5.0  # seconds that the others leave it


def join(arguments: list[str]) -> None:
    """Find the other processes, if there are any. The first one speaks for all; the others only say what goes wrong."""
    rank, size = launched_rank_and_size()
    console.rank = rank if size > 1 else None
    processes = init_ranks()
    if processes.size == 1:
        console.rank = None
        return
    console.rank = processes.rank
    if processes.rank:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    check_same(processes, "version of neglm", __version__, "install the same one on all machines")
    check_same(processes, "arguments", arguments, "start all processes with the same command")
    command = next((argument for argument in arguments if not argument.startswith("-")), "")
    if command and command not in TOGETHER and not {"-h", "--help"} & set(arguments):
        raise NeglmError(f"`neglm {command}` is the work of one process: start it without mpirun")


def leave(code: int, sentence: str) -> int:
    """Say why this process cannot go on, once for all of them; and end the others, if they still can."""
    processes = ranks()
    if processes.size == 1:
        if not console.rank:
            _say(sentence)
        else:  # they have not found each other; and where one leaves, srun ends the first before it has spoken
            time.sleep(FIRST_SPEAKS)
        return code
    if processes.rank == 0:
        _say(sentence)
    if not processes.all_failed():
        if processes.rank:
            _say(sentence)
        processes.abort(code)
    processes.finalize()
    return code


def _say(sentence: str) -> None:
    """Print an error. If that fails, too, the exit code still tells."""
    with suppress(OSError):
        console.error(sentence)
        sys.stderr.flush()


def traffic(processes: Ranks) -> dict[str, Any]:
    """For a summary: what was sent."""
    if processes.size == 1:
        return {}
    return {"processes": processes.size, "bytes_sent": processes.bytes_sent}


def traffic_text(summary: dict[str, Any]) -> list[str]:
    if "processes" not in summary:
        return []
    return [f"  {'processes':<16}{summary['processes']}; the first one sent {summary['bytes_sent']:,} bytes"]
