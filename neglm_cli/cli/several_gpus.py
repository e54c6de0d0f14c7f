"""`--device cuda:0,1` and `cuda:all`: the command runs itself again under MPI's launcher, with a rank for each GPU.

The ranks are a session of their own, so that Ctrl-C reaches only the first process. It sends signals through the
launcher's standard input to rank 0, which raises them on all ranks: launchers kill ranks before these have written a
checkpoint. If the first process is killed, rank 0 sees the end of its input, and terminates the ranks.
"""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress

import typer

from neglm_cli.cli.signals import SIGNALLED, noted
from neglm_cli.errors import NeglmError
from neglm_cli.runs.resources import listed_gpus
from neglm_cli.scale.launch import OWN_LAUNCHER, ranks
from neglm_cli.scale.launcher import STARTED, launcher_command, ranks_environment
from neglm_cli.scale.ranks import Ranks

HELLO = 0  # sent first: the launcher passes standard input on


def run_on_listed_gpus(device: str) -> None:
    """If --device lists several GPUs, run this command on as many ranks, and exit with their exit code."""
    if ranks().size > 1 or (count := len(listed_gpus(device))) < 2:
        return
    if STARTED in os.environ:
        raise NeglmError(f"{count} ranks were started for --device {device}, but MPI sees 1: {OWN_LAUNCHER}")
    command = [*launcher_command(count), sys.executable, *sys.orig_argv[1:]]
    raise typer.Exit(_Launcher(command).wait())


class _Launcher:
    """A launcher that runs."""

    def __init__(self, command: list[str]) -> None:
        receiver, self._sender = os.pipe()
        os.write(self._sender, bytes([HELLO]))
        self._process = subprocess.Popen(command, stdin=receiver, env=ranks_environment(), start_new_session=True)
        os.close(receiver)
        self._signals: list[int] = []

    def wait(self) -> int:
        """Wait for the end of all ranks, and return the exit code."""
        with noted(self._send) as self._signals:
            self._send()  # a signal that came before the assignment
            code = self._process.wait()
        os.close(self._sender)
        if self._signals:
            return SIGNALLED + self._signals[0]
        return code if code >= 0 else SIGNALLED - code

    def _send(self) -> None:
        """Send the first signal to the ranks. After another one, the launcher ends them."""
        if len(self._signals) > 1:
            self._process.terminate()
        elif self._signals:
            with suppress(BrokenPipeError):  # it is exiting
                os.write(self._sender, bytes(self._signals))


def obey_starter(ranks: Ranks) -> None:
    """Raise signals that the `neglm` that has started these ranks sends, on all of them."""
    processes = ranks.allgather(os.getpid())
    if ranks.rank == 0:
        source = os.dup(0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        threading.Thread(target=_obey, args=(source, processes), daemon=True).start()


def _obey(source: int, processes: list[int]) -> None:
    if os.read(source, 1) != bytes([HELLO]):
        return
    received = os.read(source, 1)
    for process in reversed(processes):  # the last one is this rank, which then may exit
        with suppress(ProcessLookupError):  # it has ended
            os.kill(process, received[0] if received else signal.SIGTERM)
