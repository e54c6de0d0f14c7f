"""Programs that need other tools: they run in the Python that PEERS names, as in the Makefile, or in this one."""

import functools
import json
import os
import subprocess
import sys
from typing import Any

import pytest

PYTHON = os.environ.get("PEERS", sys.executable)


@functools.cache
def has(module: str) -> bool:
    return not subprocess.run([PYTHON, "-c", f"import {module}"], check=False, capture_output=True).returncode


def result_of(module: str, program: str, *arguments: Any) -> Any:
    """Run a program that prints JSON. Its arguments are JSON, too, in sys.argv. Skip the test without the module."""
    if not has(module):
        pytest.skip(f"{module} is not installed")
    command = [PYTHON, "-c", program, *map(json.dumps, arguments)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
