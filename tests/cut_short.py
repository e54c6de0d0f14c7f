"""Runs neglm, which sends itself a signal at the n-th call of a function: reproducible, unlike a signal from another
process.

    python tests/cut_short.py SIGNAL MODULE:FUNCTION CALLS ARGUMENTS      CALLS as in 2,3
"""

import functools
import importlib
import os
import sys
from typing import Any

RANK = "CUT_SHORT_RANK"  # the rank that gets the signal


def cut_short(number: int, function: str, calls: str, *arguments: str, first: str = "") -> list[str]:
    """Return the command. first: a program to run before."""
    program = f"{first}import runpy; runpy.run_path({__file__!r}, run_name='__main__')"
    return [sys.executable, "-P", "-c", program, str(int(number)), function, calls, *arguments]


def main(number: str, function: str, calls: str, *arguments: str) -> None:
    from neglm_cli.__main__ import main as run_neglm

    module, _, path = function.partition(":")
    *parents, name = path.split(".")
    owner: Any = functools.reduce(getattr, parents, importlib.import_module(module))
    called, real, moments = 0, getattr(owner, name), set(map(int, calls.split(",")))

    @functools.wraps(real)
    def counted(*given: Any, **named: Any) -> Any:
        nonlocal called
        called += 1
        if called in moments:
            os.kill(os.getpid(), int(number))
        return real(*given, **named)

    if os.environ.get(RANK) in (None, os.environ.get("PMI_RANK")):
        setattr(owner, name, counted)
    sys.argv[1:] = arguments
    run_neglm()


if __name__ == "__main__":
    main(*sys.argv[1:])
