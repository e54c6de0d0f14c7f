"""A few hundred mutated files; `python -m tests.store.mutants` tries more."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import Neglm, users_environment
from tests.store.mutants import RESUME, sign
from tests.store.samples import parse, write_samples

COUNT = 300
ROOT = Path(__file__).parent.parent.parent


def test_no_mutant_breaks_a_command() -> None:
    """In a separate process without threads, which can be forked."""
    command = [sys.executable, "-m", "tests.store.mutants", "--count", str(COUNT)]
    result = subprocess.run(command, cwd=ROOT, env=users_environment(), capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    for outcome in ("vocabulary: accepted", "vectors: accepted", "language model neglm: accepted", ": refused"):
        assert outcome in result.stdout  # otherwise the mutations would test little


@pytest.mark.parametrize(
    ("kind", "option", "command"),
    [
        ("checkpoint adam", "batch", ("train-lm", *RESUME, "--output", "resumed")),
        ("vectors", "size", ("embed", *RESUME, "-o", "resumed")),
        ("vectors", "k", ("embed", *RESUME, "-o", "resumed")),
    ],
)
def test_missing_arguments_follow_from_tensors_and_fields(
    neglm: Neglm, workplace: Path, kind: str, option: str, command: tuple[str, ...]
) -> None:
    metadata, tensors = parse(write_samples(workplace)[kind])
    results = []
    for lost in ((), (option,)):
        arguments = {name: value for name, value in json.loads(metadata["arguments"]).items() if name not in lost}
        Path("resumed.partial").write_bytes(sign(metadata | {"arguments": json.dumps(arguments)}, tensors))
        neglm(*command)
        results.append(parse(Path("resumed").read_bytes())[1])
    for name, tensor in results[0].items():
        np.testing.assert_array_equal(tensor, results[1][name])
