"""Processes that compile: they end by themselves, and take no modules from the current directory."""

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from neglm_cli.errors import NeglmError
from neglm_cli.kernels import compilers

SIGNATURE = '[["array","B",1,"C",true],["int"],["int"]]'
SCRIPT = """
import sys, time
from neglm_cli.kernels import compilers
compilers.IDLE_SECONDS = float(sys.argv[1])
signature = '[["array","B",1,"C",true],["int"],["int"]]'
(code,) = compilers.compile_kernels([("neglm_cli.text.tokens:first_space", signature)])
(compiler,) = compilers._compilers._idle
print(len(code), compiler._process.pid, flush=True)
time.sleep(float(sys.argv[2]))
"""


def compiling(idle: float, then: float, directory: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", SCRIPT, str(idle), str(then)], cwd=directory, stdout=subprocess.PIPE)


def compiler_of(process: "subprocess.Popen[bytes]") -> int:
    assert process.stdout
    size, compiler = map(int, process.stdout.readline().split())
    assert size > 100
    return compiler


def wait_for_end(process: int) -> None:
    limit = time.monotonic() + 300
    with suppress(FileNotFoundError, ProcessLookupError):
        while ") Z" not in Path(f"/proc/{process}/stat").read_text():  # a zombie has ended, too
            assert time.monotonic() < limit
            time.sleep(0.05)


def test_an_idle_compiler_ends(tmp_path: Path) -> None:
    with compiling(0.1, 300, tmp_path) as process:
        wait_for_end(compiler_of(process))
        assert process.poll() is None
        process.kill()


def test_a_compiler_ends_with_its_process(tmp_path: Path) -> None:
    with compiling(1e4, 300, tmp_path) as process:
        compiler = compiler_of(process)
        process.kill()
        wait_for_end(compiler)


def test_the_current_directory_has_no_modules(tmp_path: Path) -> None:
    for name in ("numba.py", "json.py", "llvmlite.py", "ctypes.py"):
        (tmp_path / name).write_text("raise SystemExit('a module of somebody else')")
    arguments = [sys.executable, "-P", "-c", SCRIPT, "1", "0"]
    with subprocess.Popen(arguments, cwd=tmp_path, stdout=subprocess.PIPE) as process:
        compiler_of(process)


def test_nothing_else_is_taken_for_a_reply(tmp_path: Path) -> None:
    """A module that prints at start-up, and Numba's own variables."""
    (tmp_path / "sitecustomize.py").write_text("print('hello')")
    variables = {"PYTHONPATH": str(tmp_path), "NUMBA_DUMP_BYTECODE": "1", "NUMBA_DISABLE_JIT": "1"}
    environment = os.environ | variables
    arguments = [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{SCRIPT}", "1", "0"]
    with subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE) as process:
        compiler_of(process)


def test_a_compiler_that_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilers, "PYTHON", (sys.executable, "-c", "print(1)"))
    monkeypatch.setattr(compilers, "_compilers", compilers._Compilers())
    with pytest.raises(NeglmError, match="the process that compiles it has ended"):
        compilers.compile_kernels([("a:b", "[]")])
    assert not compilers._compilers._idle + compilers._compilers._busy


def test_an_idle_compiler_that_died_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilers, "_compilers", compilers._Compilers())
    for _ in range(2):
        (code,) = compilers.compile_kernels([("neglm_cli.text.tokens:first_space", SIGNATURE)])
        assert len(code) > 100
        (compiler,) = compilers._compilers._idle
        compiler._process.kill()
        compiler._process.wait()
