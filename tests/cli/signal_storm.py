"""Runs a command many times, each time under a storm of signals that begins at a different Python call: python -m
tests.cli.signal_storm TIMES ARGUMENTS. Prints a JSON list of [exit code, standard error, remaining files].

Commands are forked from this process, which has imported the large libraries, but nothing of neglm.
"""

import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from itertools import cycle
from pathlib import Path
from typing import Any

import numba  # noqa: F401
import numpy  # noqa: F401

STORM = cycle([signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
PAUSE = 0.0005  # seconds between signals


def run_neglm(arguments: list[str], first: int, begun: int) -> None:
    """Run the command line, with the first signal at the given call. If there are fewer calls, write their number to
    `begun`."""
    entry: Any = importlib.import_module("neglm_cli.__main__")
    watch, end, calls = entry.watch, entry.end, 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"
        if calls == first:
            sys.setprofile(None)
            os.write(begun, b"now\n")
            os.kill(os.getpid(), signal.SIGTERM)

    def watch_and_count() -> None:
        watch()
        sys.setprofile(count)

    def tell_and_end(code: int) -> None:
        sys.setprofile(None)
        os.write(begun, b"%d\n" % calls)
        end(code)

    entry.watch, entry.end = watch_and_count, tell_and_end
    sys.argv[1:] = arguments
    entry.main()


def storm(arguments: list[str], first: int) -> tuple[int, str, list[str], int]:
    """Return the exit code, standard error, files, and the number of calls."""
    directory = tempfile.mkdtemp(prefix="storm-")  # the child would remove a TemporaryDirectory, too
    with tempfile.TemporaryFile() as errors:
        begun, their_end = os.pipe()
        child = os.fork()
        if child == 0:
            os.chdir(directory)
            os.mkdir("tmp")
            os.environ["TMPDIR"] = os.path.join(directory, "tmp")
            tempfile.tempdir = None
            os.dup2(errors.fileno(), 2)
            os.dup2(errors.fileno(), 1)
            run_neglm(arguments, first, their_end)
        os.close(their_end)
        with open(begun, "rb") as said:
            line = said.readline()
            while line == b"now\n":
                ended, status = os.waitpid(child, os.WNOHANG)
                if ended:
                    break
                os.kill(child, next(STORM))
                time.sleep(PAUSE)
            else:
                _, status = os.waitpid(child, 0)
        errors.seek(0)
        left = sorted(str(path.relative_to(directory)) for path in Path(directory).rglob("*"))
        shutil.rmtree(directory)
        calls = 0 if line == b"now\n" else int(line)
        return os.waitstatus_to_exitcode(status), errors.read().decode(), left, calls


if __name__ == "__main__":
    times, *arguments = sys.argv[1:]
    *alone, calls = storm(arguments, -1)
    firsts = [1 + calls * i // int(times) for i in range(int(times))]
    print(json.dumps([alone, *(storm(arguments, first)[:3] for first in firsts)]))
