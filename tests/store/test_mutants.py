"""Files that were changed and signed again: quickly, some hundreds; `python -m tests.store.mutants` tries more."""

import subprocess
import sys
from pathlib import Path

from tests.conftest import users_environment

COUNT = 300
ROOT = Path(__file__).parent.parent.parent


def test_no_mutant_surprises_a_command() -> None:
    """In a process of its own, without threads, which can be forked."""
    command = [sys.executable, "-m", "tests.store.mutants", "--count", str(COUNT)]
    result = subprocess.run(command, cwd=ROOT, env=users_environment(), capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    for outcome in ("vocabulary: accepted", "vectors: accepted", "language model neglm: accepted", ": refused"):
        assert outcome in result.stdout  # both happen, or the mutations are not worth it
