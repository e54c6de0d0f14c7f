"""Collective operations, agreement and data-parallel training under mpirun, with a real MPI library."""

import sys
from pathlib import Path

import pytest

from tests.conftest import SIMULATOR
from tests.scale.running import mpirun

ON_GPU = ["neglm", "softmax", "shared by a batch", "exact adam", "tied", "tied, softmax"]
ON_CPU = [
    "neglm", "neglm-b", "nce", "softmax", "shared by a step", "shared by a batch", "reset", "adagrad", "adam",
    "exact adam", "adam, softmax", "three layers, three threads", "tied", "tied, softmax",
    "tied, shared by a step", "tied, exact adam", "all dropout", "average",
]  # fmt: skip


def check(processes: int, cwd: Path, *arguments: str, simulated: bool = False) -> None:
    command = (sys.executable, "-m", "tests.scale.checks", *arguments)
    said = mpirun(processes, *command, cwd=cwd, variables={SIMULATOR: "1"} if simulated else {}).stdout.decode()
    assert all(said.count(f"rank {rank} of {processes}: {arguments[0]}") == 1 for rank in range(processes))


@pytest.mark.parametrize("processes", [2, 3])
@pytest.mark.parametrize("what", ["collectives", "agreement"])
def test_collectives_and_agreement(tmp_path: Path, what: str, processes: int) -> None:
    check(processes, tmp_path, what)


def test_training_on_the_cpu(tmp_path: Path) -> None:
    check(2, tmp_path, "trains", "cpu", *ON_CPU)


def test_models_that_diverge(tmp_path: Path) -> None:
    check(2, tmp_path, "syncs")


@pytest.mark.parametrize("processes", [3, 4])
def test_uneven_parts_of_the_batch(tmp_path: Path, processes: int) -> None:
    check(processes, tmp_path, "trains", "cpu", "neglm", "shared by a step")


def test_training_on_gpus(tmp_path: Path) -> None:
    check(2, tmp_path, "trains", "cuda", *ON_GPU, simulated=True)
