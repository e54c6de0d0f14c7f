"""All kernels compile with numba-cuda-mlir, the successor of numba-cuda, or fail as is known. Optional: for a Python
that has it and neglm's dependencies, named by MLIR, or for this one."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import users_environment
from tests.lm.cuda.software.build import build, missing

PYTHON = os.environ.get("MLIR", sys.executable)
# The kernels that version 0.6 cannot compile, by a part of the error.
KNOWN = {
    "std::bad_cast": {  # constants of 2^63 and more, as in the hashes that draw random numbers
        "list_occurrences", "lookup", "gather_gradients", "forward", "backward", "step_forward", "step_backward",
        "cell_step_forward", "cell_step_backward", "drop_recurrent",
    },
    "float_of": {"update_range", "update_rows", "flush_lazy_updates", "flush_decay"},  # bits of an integer as a float
    "compiler bug": {"loss_and_gradient_norm"},
}  # fmt: skip

pytestmark = [
    pytest.mark.slow_gpu,
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.skipif(
        "MLIR" not in os.environ and find_spec("numba_cuda_mlir") is None, reason="numba-cuda-mlir is not installed"
    ),
]


def unknown(found: dict[str, str]) -> dict[str, str]:
    """Return the errors that are not known."""
    return {
        name: error
        for name, error in found.items()
        if error and not any(part in error and name in kernels for part, kernels in KNOWN.items())
    }


def test_all_kernels_compile_but_those_known(tmp_path: Path) -> None:
    environment = users_environment() | build(tmp_path) | {"PYTHONPATH": str(Path(__file__).parents[3])}
    command = [PYTHON, "-W", "ignore", "-m", "tests.lm.cuda.mlir_compile"]
    done = subprocess.run(command, capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stdout)
    assert len(found) > sum(map(len, KNOWN.values()))
    assert unknown(found) == {}
