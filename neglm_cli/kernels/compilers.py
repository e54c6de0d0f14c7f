"""Processes that compile kernels, see `compile.py`: started when the first kernel is missing, ended with this one."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from threading import Timer

from neglm_cli.errors import NeglmError

MAX_PROCESSES = 8  # of about 200 MB each
IDLE_SECONDS = 30.0  # after which they end
PYTHON = (sys.executable, "-P", "-W", "ignore")  # -P: modules in the current directory are not ours

Announcement = Callable[[int], AbstractContextManager[Callable[[], None]]]


@contextmanager
def _silently(kernels: int) -> Iterator[Callable[[], None]]:
    yield lambda: None


announce: Announcement = _silently  # called with the number of kernels; what it yields, after each of them


def same_modules() -> dict[str, str]:
    """Return an environment in which Python finds the modules that this process finds."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


class _Compiler:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [*PYTHON, "-m", "neglm_cli.kernels.compile"], env=same_modules() | {"NEGLM_COMPILING": "1"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,  # Ctrl-C is for this process
        )  # fmt: skip

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()

    def compile(self, name: str, signature: str) -> bytes:
        assert self._process.stdin
        assert self._process.stdout
        try:
            self._process.stdin.write(f"[{json.dumps(name)},{signature}]\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            raise NeglmError(f"the process that compiles kernels has ended: {sys.executable}") from None
        kind, size = self._process.stdout.read(1), self._process.stdout.read(8)
        data = self._process.stdout.read(int.from_bytes(size, "little"))
        if kind != b"O":
            raise NeglmError(f"the kernel {name} could not be compiled: {data.decode() or 'its compiler ended'}")
        return data


class _Compilers:
    """Idle processes of the current process; a fork has none."""

    def __init__(self) -> None:
        self._idle: list[_Compiler] = []
        self._owner = os.getpid()
        self._timer: Timer | None = None

    @contextmanager
    def one(self) -> Iterator[_Compiler]:
        if self._owner != os.getpid():
            self.__init__()  # type: ignore[misc]
        try:
            compiler = self._idle.pop()
        except IndexError:
            compiler = _Compiler()
        yield compiler
        self._idle.append(compiler)  # unless it failed

    def close_later(self) -> None:
        """End the processes when they have been idle for some time."""
        if self._timer:
            self._timer.cancel()
        self._timer = Timer(IDLE_SECONDS, self.close)
        self._timer.daemon = True
        self._timer.start()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()


_compilers = _Compilers()


def compile_kernels(requests: list[tuple[str, str]]) -> list[bytes]:
    """Return object code of kernels, each for a signature in JSON, compiled on all cores."""
    threads = ThreadPoolExecutor(min(len(requests), len(os.sched_getaffinity(0)), MAX_PROCESSES))
    compiled = []
    try:
        with announce(len(requests)) as done:
            for code in threads.map(_compile, requests):
                compiled.append(code)
                done()
    finally:
        threads.shutdown(wait=False, cancel_futures=True)  # after a signal, nobody waits for them
        _compilers.close_later()
    return compiled


def _compile(request: tuple[str, str]) -> bytes:
    with _compilers.one() as compiler:
        return compiler.compile(*request)
