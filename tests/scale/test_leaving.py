"""Ranks that exit at different times: the launcher kills none of them."""

from pathlib import Path

import pytest

from tests.scale.running import NEGLM, mpirun

# Each rank exits half a second after the previous one, with no communication left.
APART = (
    "import atexit, os, time; from neglm_cli.__main__ import main; "
    "atexit.register(time.sleep, 0.5 * int(os.environ['PMI_RANK'])); main()"
)


@pytest.mark.parametrize(("arguments", "code"), [(["--version"], 0), (["vocab", "none.txt"], 1), (["--none"], 2)])
def test_ranks_exit_at_different_times(tmp_path: Path, arguments: list[str], code: int) -> None:
    said = mpirun(4, NEGLM[0], "-c", APART, *arguments, cwd=tmp_path, code=code)
    assert said.stderr.count(b"\n") == (code > 0)


# Ranks fail at different times, as on a busy machine.
LATE = (
    "import os, time; from neglm_cli.text import corpus; real = corpus.open_corpus; "
    "corpus.open_corpus = lambda *given: (time.sleep(4 + 4 * int(os.environ['PMI_RANK'])), real(*given)); "
    "from neglm_cli.__main__ import main; main()"
)


def test_ranks_fail_at_different_times(tmp_path: Path) -> None:
    """All ranks fail for the same reason, which is printed once."""
    said = mpirun(2, NEGLM[0], "-c", LATE, "vocab", "none.txt", cwd=tmp_path, code=1).stderr
    assert said == b"neglm: rank 0: none.txt does not exist\n"
