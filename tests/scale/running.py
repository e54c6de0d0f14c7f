"""Runs commands under mpirun, in the environment of a user."""

import subprocess
import sys
from pathlib import Path

from tests.conftest import users_environment

MPIRUN = str(Path(sys.executable).with_name("mpirun"))  # of the mpich wheel
ROOT = Path(__file__).parent.parent.parent
NEGLM = [sys.executable, "-m", "neglm_cli"]
SECONDS = 600  # timeout of a job, including compilation


def environment() -> dict[str, str]:
    return users_environment() | {"PYTHONPATH": str(ROOT)}


def mpirun(
    processes: int, *command: str, cwd: Path, code: int | None = 0, variables: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    result = subprocess.run(
        [MPIRUN, "-n", str(processes), *command], cwd=cwd, env=environment() | (variables or {}), capture_output=True,
        timeout=SECONDS, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert code is None or result.returncode == code, (result.stdout + result.stderr).decode()
    return result


def neglm(processes: int, *arguments: str, cwd: Path, code: int | None = 0) -> subprocess.CompletedProcess[bytes]:
    """Run neglm; a single process runs without mpirun."""
    if processes > 1:
        return mpirun(processes, *NEGLM, *arguments, cwd=cwd, code=code)
    result = subprocess.run([*NEGLM, *arguments], cwd=cwd, env=environment(), capture_output=True, timeout=SECONDS)
    assert code is None or result.returncode == code, result.stderr.decode()
    return result
