"""The Python code in README.md runs, on small files of the names that it uses."""

import subprocess
import sys
from pathlib import Path

from tests.conftest import users_environment
from tests.test_documented_commands import LINES, ROOT, indented_blocks


def test_python_of_the_readme(tmp_path: Path) -> None:
    (block,) = (
        block
        for block in indented_blocks((ROOT / "README.md").read_text(encoding="utf-8"))
        if block[0] == "import neglm_cli"
    )
    for name in ("corpus.txt", "train.txt", "valid.txt", "test.txt"):
        (tmp_path / name).write_text(LINES * 5)
    environment = users_environment() | {"NEGLM_CACHE": str(tmp_path)}
    subprocess.run([sys.executable, "-c", "\n".join(block)], cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / "model.safetensors").exists()
