"""Processes that compile kernels, see `compile.py`: started when the first kernel is missing, ended soon afterwards."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
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


def usable_cores() -> int:
    """Return the number of cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def same_modules() -> dict[str, str]:
    """Return an environment in which Python finds the modules that this process finds."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def _environment() -> dict[str, str]:
    """Return the environment of a compiler: variables of Numba's would change the code that it makes."""
    kept = {name: value for name, value in same_modules().items() if not name.startswith("NUMBA_")}
    return kept | {"NEGLM_COMPILING": "1", "NUMBA_DISABLE_INTEL_SVML": "1"}  # SVML is found through Numba only


class _Compiler:
    """A process that compiles. Its replies have a pipe of their own: anything may print to standard output."""

    def __init__(self) -> None:
        replies, theirs = os.pipe()
        try:
            self._process = subprocess.Popen(
                [*PYTHON, "-m", "neglm_cli.kernels.compile", str(theirs)], env=_environment(), pass_fds=[theirs],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True,  # Ctrl-C is for this process
            )  # fmt: skip
        finally:
            os.close(theirs)
        self._replies = os.fdopen(replies, "rb")

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def compile(self, name: str, signature: str) -> bytes:
        assert self._process.stdin
        with suppress(BrokenPipeError):  # there will be no reply
            self._process.stdin.write(f"[{json.dumps(name)},{signature}]\n".encode())
            self._process.stdin.flush()
        kind, size = self._replies.read(1), int.from_bytes(self._replies.read(8), "little")
        data = self._replies.read(size)
        if kind == b"O" and len(data) == size:
            return data
        why = data.decode(errors="replace") if kind == b"E" else "the process that compiles it has ended"
        raise NeglmError(f"the kernel {name} could not be compiled: {why}")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class _Compilers:
    """The compilers of this process."""

    def __init__(self) -> None:
        self._idle: list[_Compiler] = []
        self._busy: list[_Compiler] = []
        self._timer: Timer | None = None

    @contextmanager
    def acquire(self) -> Iterator[_Compiler]:
        compiler = self._take()
        self._busy.append(compiler)
        try:
            yield compiler
        except BaseException:
            compiler.kill()
            raise
        finally:
            self._busy.remove(compiler)
        self._idle.append(compiler)

    def _take(self) -> _Compiler:
        with suppress(IndexError):
            while True:
                compiler = self._idle.pop()
                if compiler.alive:
                    return compiler
        return _Compiler()

    def kill_busy(self) -> None:
        for compiler in list(self._busy):
            compiler.kill()

    def kill_later(self) -> None:
        """End the processes when they have been idle for some time."""
        if self._timer:
            self._timer.cancel()
        self._timer = Timer(IDLE_SECONDS, self.kill_idle)
        self._timer.daemon = True
        self._timer.start()

    def kill_idle(self) -> None:
        with suppress(IndexError):  # another thread may take one
            while True:
                self._idle.pop().kill()


_compilers = _Compilers()


def forget_compilers() -> None:
    """Leave the compilers to the process that this one was forked from."""
    global _compilers
    _compilers = _Compilers()


os.register_at_fork(after_in_child=forget_compilers)


def compile_kernels(requests: list[tuple[str, str]]) -> list[bytes]:
    """Return object code of kernels, each for a signature in JSON, compiled on all cores."""
    threads = ThreadPoolExecutor(min(len(requests), usable_cores(), MAX_PROCESSES))
    compiled = []
    try:
        with announce(len(requests)) as done:
            for code in threads.map(_compile, requests):
                compiled.append(code)
                done()
    except BaseException:  # a signal, perhaps
        threads.shutdown(wait=False, cancel_futures=True)
        _compilers.kill_busy()
        raise
    threads.shutdown()
    _compilers.kill_later()
    return compiled


def _compile(request: tuple[str, str]) -> bytes:
    with _compilers.acquire() as compiler:
        return compiler.compile(*request)
