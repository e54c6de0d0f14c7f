"""`neglm`, or `python -m neglm_cli`: the way in and the way out."""

import atexit
import gc
import os
import sys


def open_missing_streams() -> None:
    """A stream that was closed (`neglm … >&-`) reads or writes nothing; no file may get its number instead."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free, which is this one
            setattr(sys, name, os.fdopen(descriptor, "w" if descriptor else "r"))


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
    # What is registered to be done is done; taking the compiler apart in good order would cost another 0.15 s.
    atexit._run_exitfuncs()
    os._exit(code)


if __name__ == "__main__":
    main()
