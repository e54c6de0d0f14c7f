"""The launcher of the MPI library, and its options for ranks on this machine."""

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from neglm_cli.errors import NeglmError
from neglm_cli.scale.launch import FORCED, INSTALL

NAMES = ("mpiexec", "mpirun")
STARTED = "NEGLM_STARTED_RANKS"  # set for ranks that `neglm` itself has started
OTHER_JOB = ("PMI_", "PMIX_", "OMPI_COMM_WORLD_")  # variables of a launcher that has started this process
LIBRARIES = f"{INSTALL} and, unless the machine has an MPI library, pip install mpich"


def launcher_command(count: int) -> list[str]:
    """Return the start of a command line that runs the rest of it on `count` ranks of this machine."""
    vendor = _vendor()
    beside = shutil.which(NAMES[0], path=str(Path(sys.executable).parent))  # of the package mpich
    found = beside or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise NeglmError(f"several GPUs need mpiexec, which is not on the PATH: {LIBRARIES}")
    options = {
        "MPICH": ["-launcher", "fork", "-hosts", "localhost"],
        "Open MPI": ["--host", f"localhost:{count}", "--bind-to", "none", "--allow-run-as-root", "--quiet"],
    }
    return [found, *options.get(vendor, []), "-n", str(count)]


def _vendor() -> str:
    """Return the vendor of the MPI library that mpi4py finds."""
    if find_spec("mpi4py") is None:
        raise NeglmError(f"several GPUs need mpi4py, which is not installed: {LIBRARIES}")
    try:
        from neglm_cli.scale.mpi import library

        return library()
    except (ImportError, RuntimeError) as error:
        raise NeglmError(f"several GPUs need an MPI library, and mpi4py finds none: {LIBRARIES}") from error


def ranks_environment() -> dict[str, str]:
    """Return the environment of ranks that are started: without variables of a job that this process belongs to."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OTHER_JOB) and name != FORCED}
    return kept | {STARTED: "1"}
