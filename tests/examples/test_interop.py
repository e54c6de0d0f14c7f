"""Commands and programs of examples/interop/README.md run, on a small model, as far as their packages are installed."""

import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from tests.conftest import Neglm, users_environment
from tests.test_documented_commands import LINES, ROOT, SMALL, indented_blocks

PAGE = ROOT / "examples/interop/README.md"
NEEDS = {"--onnx": ("onnx", "onnxruntime"), "language_model.py": ("torch", "safetensors")}  # by words of a command


def installed(packages: tuple[str, ...]) -> bool:
    return all(find_spec(package) is not None for package in packages)


def run_python(*arguments: str) -> None:
    environment = users_environment() | {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, (arguments, done.stderr)
    assert done.stdout


def test_everything_on_the_page_runs(neglm: Neglm) -> None:
    Path("test.txt").write_text(LINES)
    neglm("vocab", "test.txt", "--quiet")
    neglm("embed", "--epochs", "1", "--size", "5", "--quiet", "--no-cache")
    neglm("train-lm", "--valid", "test.txt", "--no-cache", *SMALL.split())
    ran = 0
    for block in indented_blocks(PAGE.read_text(encoding="utf-8")):
        if block[0].startswith("  "):  # output
            continue
        if block[0].startswith(("import ", "from ")):
            packages = tuple(re.findall(r"^(?:import|from) (\w+)", "\n".join(block), re.MULTILINE))
            if installed(packages) and ("onnxruntime" not in packages or Path("lm.onnx").exists()):
                run_python("-c", "\n".join(block))
                ran += 1
            continue
        for line in block:
            command = shlex.split(line, comments=True)
            needed = [package for word, packages in NEEDS.items() if word in line for package in packages]
            if not installed(tuple(needed)):
                continue
            if command[0] == "neglm":
                neglm(*command[1:])
            else:
                assert command[0] == "python"
                run_python(*command[1:])
            ran += 1
    assert ran >= 8
