"""Whether this process is one of several, as far as its environment tells: without MPI, which takes time to load."""

import os
from importlib.util import find_spec

from neglm_cli.errors import NeglmError
from neglm_cli.scale.ranks import ALONE, Ranks

# What MPI libraries and clusters tell each process: its rank, and how many there are.
LAUNCHERS = (
    ("PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI, Cray
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("MPI_RANKID", "MPI_NRANKS"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)
FORCED = "NEGLM_MPI"  # 1: there is MPI, whatever else the environment says; 0: there is none
OPEN_MPI = "OMPI_COMM_WORLD_SIZE"  # only its mpirun sets it
INSTALL = "pip install 'neglm[mpi]'"
OWN_LAUNCHER = "mpirun, or srun --mpi=…, must be that of the MPI library which mpi4py finds"

_ranks: Ranks = ALONE


def launched() -> tuple[int, int]:
    """The rank of this process, and how many processes were started with it."""
    if os.environ.get(FORCED) == "0":
        return 0, 1
    for rank, size in LAUNCHERS:
        if rank in os.environ and os.environ.get(size, "1") != "1":
            return int(os.environ[rank]), int(os.environ[size])
    return 0, 1


def start() -> Ranks:
    """Find the other processes, if there are any."""
    global _ranks
    _, expected = launched()
    if expected == 1 and os.environ.get(FORCED) != "1":
        return _ranks
    if find_spec("mpi4py") is None:
        raise NeglmError(f"{expected} processes were started, but mpi4py is not installed: {INSTALL}, on all machines")
    try:
        from neglm_cli.scale.mpi import MpiRanks, library

        if OPEN_MPI in os.environ and library() == "MPICH" and os.environ.get(FORCED) != "1":
            raise NeglmError(f"{expected} processes were started by Open MPI, but mpi4py finds MPICH: {OWN_LAUNCHER}")
        _ranks = MpiRanks()
    except (ImportError, RuntimeError) as error:
        raise NeglmError(f"{expected} processes were started, but mpi4py finds no MPI library: {error}") from error
    if _ranks.size != expected > 1:
        raise NeglmError(f"{expected} processes were started, but MPI sees {_ranks.size}: {OWN_LAUNCHER}")
    return _ranks


def ranks() -> Ranks:
    """The processes of this job; one, unless `start` has found more."""
    return _ranks
