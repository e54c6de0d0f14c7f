"""`neglm`, or `python -m neglm_cli`: the way in and the way out."""

import atexit
import gc
import os
import sys
from typing import NoReturn


def open_missing_streams() -> None:
    """A stream that was closed (`neglm … >&-`) reads or writes nothing; no file may get its number instead."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free, which is this one
            setattr(sys, name, os.fdopen(descriptor, "w" if descriptor else "r"))


def end(code: int) -> NoReturn:
    """Exit without tearing down the interpreter, which would take another 0.15 s.

    After MPI_Finalize through libc's `exit`: since MPICH 4.2 the launcher learns from a C exit handler that a rank has
    ended properly, and kills all ranks if one is gone without it. A rank that has not come to MPI_Finalize must not
    run that handler: the others would wait for it forever.
    """
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_finalized():
        import ctypes

        ctypes.PyDLL(None).exit(code)  # holds the GIL, so that no Python thread runs beside the handlers
    os._exit(code)


def main() -> None:
    gc.set_threshold(1_000_000)  # importing Numba makes many objects that stay; looking through them takes 0.1 s
    open_missing_streams()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # words are any bytes
    try:
        from neglm_cli.cli.main import run

        code = run(sys.argv[1:])
        sys.stdout.flush()
        sys.stderr.flush()
    except KeyboardInterrupt:  # during the imports; `run` sees to the rest
        print("neglm: interrupted", file=sys.stderr)
        code = 130
    except BrokenPipeError:
        code = 0
    except OSError:  # what was still to be printed could not be
        code = 1
    atexit._run_exitfuncs()
    end(code)


if __name__ == "__main__":
    main()
