"""Starts `neglm` faster, by forking a process (warm_parent.py) that has imported all modules and loaded the compiled
kernels from disk.

The child has its own arguments, directory and pipes, and runs `main` from its first line to its exit code. Whatever
Python or a module reads at startup (environment variables, limits, signals) is the parent's: tests of these start a
separate process. The variables in READ_LATE are read by commands, when they need them.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

SECONDS = 600  # timeout of a command, including compilation
LARGEST = 1 << 16  # maximum bytes of a command
READ_LATE = {"COLUMNS", "NEGLM_CACHE", "NEGLM_CACHE_LIMIT"}

PARENT = Path(__file__).with_name("warm_parent.py")


class Warm:
    def __init__(
        self, environment: dict[str, str], preexec: Callable[[], None] | None = None, for_gpu: bool = False
    ) -> None:
        """for_gpu: import the modules for GPUs, too, and with them numba-cuda."""
        self._ask, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._parent = subprocess.Popen(  # with pipes, because Python checks at startup if streams are seekable
                [sys.executable, "-P", PARENT, str(theirs.fileno()), str(LARGEST), *(["gpu"] if for_gpu else [])],
                env=environment, preexec_fn=preexec,
                pass_fds=[theirs.fileno()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip

    def run(
        self, arguments: list[str], directory: Path, stdin: bytes = b"", variables: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command like subprocess.run, with all three streams as pipes. variables: set before it starts."""
        return self.run_with_fault(arguments, directory, None, stdin, variables)[0]

    def run_with_fault(
        self,
        arguments: list[str],
        directory: Path,
        fault: tuple[str, int] | None,
        stdin: bytes = b"",
        variables: dict[str, str] | None = None,
    ) -> tuple[subprocess.CompletedProcess[bytes], int, str]:
        """Run a command, and make the n-th system call on files below a directory fail, if faults/shim.c is preloaded.
        Return also the number of calls, and the name of the one that failed."""
        message = json.dumps([str(directory), arguments, SECONDS, fault, variables or {}]).encode()
        assert len(message) < LARGEST
        (their_in, in_), (out, their_out), (err, their_err) = (os.pipe() for _ in range(3))
        socket.send_fds(self._ask, [message], [their_in, their_out, their_err])
        for pipe in (their_in, their_out, their_err):
            os.close(pipe)
        with ThreadPoolExecutor(3) as threads:
            threads.submit(_write, in_, stdin)
            stdout, stderr = threads.submit(_read, out), threads.submit(_read, err)
            answer = self._ask.recv(LARGEST)
        assert answer, self._parent.communicate()[1].decode()
        code, calls, kind = json.loads(answer)
        assert code != -signal.SIGALRM, f"neglm {' '.join(arguments)} timed out after {SECONDS} seconds"
        done = subprocess.CompletedProcess(["neglm", *arguments], code, stdout.result(), stderr.result())
        return done, calls, kind

    def close(self) -> None:
        self._ask.close()
        self._parent.communicate()


def _write(pipe: int, data: bytes) -> None:
    with suppress(BrokenPipeError), open(pipe, "wb") as file:  # not all commands read
        file.write(data)


def _read(pipe: int) -> bytes:
    with open(pipe, "rb") as file:
        return file.read()
