"""Ranks that leave one after the other end the job as they end alone: the launcher kills none of them."""

from pathlib import Path

import pytest

from tests.scale.running import NEGLM, mpirun

# Each rank leaves half a second after the one before it, when it has nothing more to say to the others.
APART = (
    "import atexit, os, time; from neglm_cli.__main__ import main; "
    "atexit.register(time.sleep, 0.5 * int(os.environ['PMI_RANK'])); main()"
)


@pytest.mark.parametrize(("arguments", "code"), [(["--version"], 0), (["vocab", "none.txt"], 1), (["--none"], 2)])
def test_ranks_leave_apart(tmp_path: Path, arguments: list[str], code: int) -> None:
    said = mpirun(4, NEGLM[0], "-c", APART, *arguments, cwd=tmp_path, code=code)
    assert said.stderr.count(b"\n") == (code > 0)
