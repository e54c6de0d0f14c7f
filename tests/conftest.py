"""Shared fixtures: running `neglm` as a user does, and strategies for texts."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from neglm_cli.cli import signals
from neglm_cli.cli.main import import_commands
from tests.warm import READ_LATE, Warm

import_commands()

# No deadlines, nor limits on drawing examples: tests must not depend on the load of the machine.
settings.register_profile("default", deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("default")

Neglm = Callable[..., subprocess.CompletedProcess[bytes]]

COMMAND = [sys.executable, "-m", "neglm_cli"]
SIMULATOR = "NUMBA_ENABLE_CUDASIM"
PROGRESS = re.compile(
    r"compiling kernels|compiling, [0-9]+%.*|[a-z ]+: [0-9,.]+ .*/s"
)  # the second one after ten seconds


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--gpu", action="store_true", help="Run the tests of lm.cuda on this machine's GPU.")


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--gpu"):  # before Numba is imported, which reads it once
        os.environ[SIMULATOR] = "1"
    for number in (signal.SIGINT, signal.SIGHUP):  # background jobs inherit them as ignored
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to an empty directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def signals_as_they_were() -> Iterator[None]:
    """Restore signal handlers, because `run` leaves signals ignored at exit."""
    numbers = (*signals.SIGNALS, signal.SIGALRM)
    handlers, hooks = [signal.getsignal(number) for number in numbers], (sys.excepthook, sys.unraisablehook)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number, handler in zip(numbers, handlers, strict=True):
        signal.signal(number, handler)
    sys.excepthook, sys.unraisablehook = hooks
    signals._raised = 0


def users_environment() -> dict[str, str]:
    """Return the environment without variables for tests."""
    return {name: value for name, value in os.environ.items() if name not in (SIMULATOR, "PYTEST_CURRENT_TEST")}


@pytest.fixture(scope="session")
def warm() -> Iterator[tuple[Warm, dict[str, str]]]:
    """Yield a launcher of commands, and their environment."""
    environment = users_environment()
    started = Warm(environment)
    yield started, environment
    started.close()


@pytest.fixture
def neglm(workplace: Path, warm: tuple[Warm, dict[str, str]]) -> Neglm:
    """Return a function that runs the command line in the workplace and checks the exit code. If variables differ that
    Python or a module reads at startup, it starts a separate process."""

    def run(
        *arguments: str, stdin: bytes = b"", code: int = 0, **environment: str
    ) -> subprocess.CompletedProcess[bytes]:
        wanted = users_environment() | environment
        changed = {name: value for name, value in wanted.items() if warm[1].get(name) != value}
        if changed.keys() <= READ_LATE and warm[1].keys() <= wanted.keys():
            result = warm[0].run(list(arguments), workplace, stdin, changed)
        else:
            result = subprocess.run([*COMMAND, *arguments], input=stdin, capture_output=True, cwd=workplace, env=wanted)
        assert result.returncode == code, result.stderr.decode()
        return result

    return run


def one_sentence(stderr: bytes) -> str:
    """Return the error message: the only line, except for progress and the note on compiling kernels."""
    lines = [line for line in stderr.decode().splitlines() if not PROGRESS.match(line)]
    assert len(lines) == 1, lines
    assert lines[0].startswith("neglm: ")
    return lines[0]


def only_text(output: bytes) -> dict[str, Any]:
    """Return the result of the only text of `neglm eval --test --json`."""
    (result,) = json.loads(output)["test"]
    return dict(result)


def late_signal(module: str) -> str:
    """Return a first line of a program that sends SIGTERM whenever a thread pool of this module shuts down."""
    return (
        f"import importlib, os, signal; module = importlib.import_module({module!r}); "
        "pool = module.ThreadPoolExecutor; "
        "module.ThreadPoolExecutor = type('Late', (pool,), {'shutdown': lambda *given, **named: "
        "(os.kill(os.getpid(), signal.SIGTERM), pool.shutdown(*given, **named))})\n"
    )
