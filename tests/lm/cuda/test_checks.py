"""The checks of a GPU, run on Numba's simulator in a separate process, because Numba reads the setting only once."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent.parent


@pytest.fixture(scope="module")
def simulated() -> dict[str, Any]:
    command = [sys.executable, "-W", "ignore", "-m", "tests.lm.cuda.simulated_checks"]
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True)
    return dict(json.loads(done.stdout))


def test_all_checks_pass(simulated: dict[str, Any]) -> None:
    names = [check["name"] for check in simulated["checks"]]
    assert [check for check in simulated["checks"] if not check["good"]] == []
    assert len(set(names)) == len(names) == 28


def test_every_kernel_is_run(simulated: dict[str, Any]) -> None:
    assert set(simulated["run"]) >= set(simulated["kernels"])
    assert {"forward", "step_backward", "gemm_tn_128", "flush_lazy_updates"} <= set(simulated["kernels"])


def test_broken_kernels_are_detected(simulated: dict[str, Any]) -> None:
    assert {check["name"]: check["good"] for check in simulated["broken"]} == {
        "a product that adds nothing": False,
        "a product that is a little too large": False,
        "a kernel that no check has run": False,
    }


def test_rates(simulated: dict[str, Any]) -> None:
    rates = simulated["rates"]
    assert set(rates["product_flops"]) == {"tiles of 64", "tiles of 128"}
    assert rates["launches_per_minibatch"] > 10
    assert rates["kernels"]["sort_tiles"]["launches"] == 1
    fastest = max(rates["product_flops"].values())
    assert rates["product_flops"][rates["fastest_product"]] == fastest
    assert rates["share"] == pytest.approx(rates["training_flops"] / fastest, rel=0.1)
