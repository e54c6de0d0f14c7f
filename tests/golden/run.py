"""Runs a case as a user would: as commands, in a separate directory, with the code of a given tree."""

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llvmlite import binding

from tests.golden.cases import Case, write_texts
from tests.golden.fingerprint import fingerprint

PARTIAL = ".partial"
MPIRUN = Path(sys.executable).with_name("mpirun")
POLL = 0.0005  # seconds
TIMEOUT = 600  # seconds per command, including compilation


def machine() -> dict[str, Any]:
    """Return what determines the last bits."""
    packages = ("numba", "llvmlite", "numpy")
    return {
        "architecture": platform.machine(),
        "avx512": bool(binding.get_host_cpu_features().get("avx512f")),
        **{name: importlib.metadata.version(name) for name in packages},
    }


def run_case(case: Case, directory: Path, tree: Path) -> dict[str, Any]:
    """Run a case. Return the fingerprints of its results, by kind."""
    write_texts(directory)
    environment = os.environ | {"PYTHONPATH": str(tree), "NEGLM_CACHE": str(directory / "cache")}

    def arguments(command: Sequence[str], ranks: int = 1) -> list[str]:
        launcher = [str(MPIRUN), "-n", str(ranks)] if ranks > 1 else []
        return [*launcher, sys.executable, "-m", "neglm_cli", *command, "--quiet"]

    def run(command: Sequence[str], ranks: int = 1) -> bytes:
        ended = subprocess.run(
            arguments(command, ranks), cwd=directory, env=environment, capture_output=True, timeout=TIMEOUT
        )
        assert ended.returncode == 0, f"{case.name}: {' '.join(command)}: {ended.stderr.decode()}"
        return ended.stdout

    results: dict[str, Any] = {}
    *first, last = case.commands
    for command in first:
        run(command)
    if case.interrupted:
        state = directory / (case.result + PARTIAL)
        _kill_after_checkpoint(arguments(last, case.ranks), directory, environment, state)
        if case.evaluated:  # train-lm writes it after the first epoch, embed after some time
            results["state"] = fingerprint(directory / "first-state")
        state.write_bytes((directory / "first-state").read_bytes())
        run((last[0], "--resume", *last[last.index("-o") :]), case.ranks)
    else:
        run(last, case.ranks)
    results["result"] = fingerprint(directory / case.result)
    if case.evaluated:
        evaluated = json.loads(run(("eval", case.result, "--json", "--device", "cpu", "--test", "test.txt")))
        results["perplexity"] = evaluated.get("test", [evaluated])[0]["perplexity"]  # older trees print only that
    return results


def _kill_after_checkpoint(command: list[str], directory: Path, environment: dict[str, str], state: Path) -> None:
    """Kill a training after its first checkpoint, which is copied to `first-state`."""
    with subprocess.Popen(command, cwd=directory, env=environment, stderr=subprocess.PIPE) as process:
        while not state.exists():
            assert process.poll() is None, f"ended without a checkpoint: {' '.join(command)}"
            time.sleep(POLL)
        os.link(state, directory / "first-state")
        process.kill()
