"""The Python example runs, and finds what its corpus says."""

import subprocess
import sys
from pathlib import Path

from tests.conftest import users_environment

NOTEBOOK = Path(__file__).parent.parent.parent / "examples" / "python" / "notebook.py"


def test_the_notebook_runs(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    result = subprocess.run(
        [sys.executable, NOTEBOOK], cwd=place, env=users_environment() | {"NEGLM_CACHE": str(tmp_path / "cache")},
        capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    assert lines[0].startswith("<Vocabulary vocab.safetensors: ")
    assert lines[2].startswith("<WordVectors vectors.safetensors: ")
    assert any(line.startswith("<LanguageModel model.safetensors: neglm, ") for line in lines)
    neighbors = next(line for line in lines if line.startswith("[('") and "day'" in line)
    assert neighbors.count("day'") == 3  # the other days
    assert sorted(path.name for path in place.iterdir()) == [
        "corpus.txt", "model.safetensors", "vectors.safetensors", "vocab.safetensors",
    ]  # fmt: skip
