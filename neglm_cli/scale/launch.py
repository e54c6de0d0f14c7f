"""Detects an MPI launch from the environment; imports MPI, which is slow, only then."""

import os
from importlib.util import find_spec

from neglm_cli.errors import NeglmError
from neglm_cli.scale.ranks import SINGLE_RANK, Ranks

# Variables in which MPI launchers and clusters pass each process its rank and the number of ranks.
LAUNCHERS = (
    ("PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI, Cray
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("MPI_RANKID", "MPI_NRANKS"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)
FORCED = "NEGLM_MPI"  # overrides the detection: 1 uses MPI, 0 does not
OPEN_MPI = "OMPI_COMM_WORLD_SIZE"  # set only by Open MPI's mpirun
INSTALL = "pip install 'neglm[mpi]'"
OWN_LAUNCHER = "mpirun, or srun --mpi=…, must belong to the MPI library that mpi4py finds"

_ranks: Ranks = SINGLE_RANK


def launched_rank_and_size() -> tuple[int, int]:
    """Return this process's rank and the number of ranks, as the launcher's environment variables give them."""
    if os.environ.get(FORCED) == "0":
        return 0, 1
    for rank, size in LAUNCHERS:
        if rank in os.environ and os.environ.get(size, "1") != "1":
            return int(os.environ[rank]), int(os.environ[size])
    return 0, 1


def init_ranks() -> Ranks:
    """Initialize MPI if this process was started as one of several ranks."""
    global _ranks
    _, expected = launched_rank_and_size()
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
    """Return the ranks of this job: a single one unless `init_ranks` has initialized MPI."""
    return _ranks
