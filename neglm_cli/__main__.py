"""Process entry point and exit."""

import atexit
import gc
import os
import sys
from contextlib import suppress
from typing import NoReturn

from neglm_cli.cli.signals import Terminated, ignore, keep_main_thread_awake, outcome, raised, watch
from neglm_cli.cli.streams import prepare_streams


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


def run() -> int:
    """Run the command line; returns the exit code. From here on signals are ignored."""
    try:
        watch()
        gc.set_threshold(1_000_000)  # imports make many objects that stay, and need not be looked through
        prepare_streams()
        keep_main_thread_awake()
        from neglm_cli.cli import main

        code = main.run(sys.argv[1:])
        ignore()
    except (Exception, Terminated):  # a signal during the imports, or one that came when `main` was about to end
        ignore()
        if not raised():
            raise
        code, sentence = outcome(raised())
        with suppress(OSError):
            print(f"neglm: {sentence}", file=sys.stderr)
    return code


def main() -> None:
    code = run()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        pass
    except OSError:  # flushing stdout failed
        code = code or 1
    atexit._run_exitfuncs()
    end(code)


if __name__ == "__main__":
    main()
