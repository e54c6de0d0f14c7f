"""`--device` with a broken driver or GPU: the software GPU with a fault, under the real numba-cuda."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import one_sentence, only_text, users_environment
from tests.lm.cuda.software.build import build, missing
from tests.warm import Warm

TINY = (
    "--hidden", "3", "--layers", "1", "--k", "2", "--batch", "2", "--bptt", "2", "--no-cache", "--threads", "1",
    "--epochs", "1",
)  # fmt: skip
TRAIN = ("train-lm", "corpus.txt", *TINY, "--output")
EVALUATE = ("eval", "cpu", "--test", "corpus.txt", "--json")
TEXT = b"a b c\nb a c\n"
NO_GPU = "the driver finds no NVIDIA GPU"
# Faults and their messages: found by querying the driver, by the trial kernel, and by the tiny model.
DRIVERS = {
    "no device": NO_GPU,
    "no GPUs": NO_GPU,
    "no start": "the NVIDIA driver does not start: CUDA_ERROR_UNKNOWN",
    "mismatch": "the NVIDIA driver does not start: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    "old driver": "the NVIDIA driver supports CUDA 12.4, but the installed CUDA libraries need a driver for CUDA 13",
    "old GPU": "the NVIDIA GPU has compute capability 6.0, but neglm needs at least 7.5",
}
TRIALS = {
    "no memory": "a trial kernel fails on the NVIDIA GPU: ",
    "no launch": "a trial kernel fails on the NVIDIA GPU: ",
    "wrong numbers": "a trial kernel gives wrong results on the NVIDIA GPU",
}
MODELS = {
    "only the trial": "the GPU gives wrong results for a tiny model",
    "only the trial launches": "the GPU fails: ",
    "little memory": "software GPU has ",
}
FAILURES = DRIVERS | TRIALS | MODELS

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], Path]:
    """Return the environment of a machine with a software GPU, and a file that says what is wrong with that."""
    directory = tmp_path_factory.mktemp("gpu")
    fault = directory / "fault"
    return users_environment() | build(directory) | {"SOFTWARE_GPU_FAULT": str(fault)}, fault


@pytest.fixture(scope="module")
def stub(driver: tuple[dict[str, str], Path]) -> Iterator[Warm]:
    """Runs commands that find numba-cuda imported."""
    started = Warm(driver[0], for_gpu=True)
    yield started
    started.close()


@pytest.fixture(scope="module")
def importing(driver: tuple[dict[str, str], Path]) -> Iterator[Warm]:
    """Runs commands that import numba-cuda when they need it: when the driver may have failed already."""
    started = Warm(driver[0])
    yield started
    started.close()


Broken = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, warm: tuple[Warm, dict[str, str]]) -> tuple[Path, float]:
    """Make a directory with a corpus and a model trained on the CPU; return its perplexity, too."""
    directory = tmp_path_factory.mktemp("trained")
    (directory / "corpus.txt").write_bytes(TEXT)
    assert warm[0].run([*TRAIN, "cpu", "--device", "cpu"], directory).returncode == 0
    result = warm[0].run([*EVALUATE, "--device", "cpu"], directory)
    return directory, only_text(result.stdout)["perplexity"]


def with_fault(warm: Warm, fault: Path, directory: Path) -> Broken:
    """Return a function that runs a command with a driver or a GPU that fails."""

    def run(failure: str, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[bytes]:
        fault.write_text(failure, encoding="ascii")
        result = warm.run(list(arguments), directory)
        assert result.returncode == code, result.stderr.decode()
        return result

    return run


@pytest.fixture
def broken(
    stub: Warm, driver: tuple[dict[str, str], Path], trained: tuple[Path, float], monkeypatch: pytest.MonkeyPatch
) -> Broken:
    monkeypatch.chdir(trained[0])
    return with_fault(stub, driver[1], trained[0])


@pytest.fixture
def broken_at_import(
    importing: Warm, driver: tuple[dict[str, str], Path], trained: tuple[Path, float], monkeypatch: pytest.MonkeyPatch
) -> Broken:
    monkeypatch.chdir(trained[0])
    return with_fault(importing, driver[1], trained[0])


def using_cpu(stderr: bytes) -> str:
    """Return the one line that gives the reason."""
    (line,) = [line for line in stderr.decode().splitlines() if "using the CPU" in line]
    assert "unexpected" not in stderr.decode()
    return line


def refused(stderr: bytes, failure: str) -> list[str]:
    """Return the lines before the error."""
    *notes, last = stderr.decode().splitlines()
    assert last.startswith(f"neglm: --device cuda cannot be used: {FAILURES[failure]}")
    return notes


def all_but(*slow: str) -> list[Any]:
    """Mark cases that compile many kernels as slow."""
    return [pytest.param(name, marks=pytest.mark.slow_gpu) if name in slow else name for name in FAILURES]


@pytest.mark.parametrize("failure", all_but("only the trial"))
def test_training(broken: Broken, failure: str) -> None:
    """auto trains the same model as the CPU; cuda fails and writes nothing."""
    result = broken(failure, *TRAIN, failure)
    assert using_cpu(result.stderr).startswith(f"using the CPU: {FAILURES[failure]}")
    assert Path(failure).read_bytes() == Path("cpu").read_bytes()
    before = sorted(os.listdir())
    notes = refused(broken(failure, *TRAIN, "cuda", "--device", "cuda", code=1).stderr, failure)
    assert all(re.match("using software GPU|compiling kernels|counting words", note) for note in notes), notes
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize("failure", all_but("only the trial", "only the trial launches"))
def test_evaluating(broken: Broken, trained: tuple[Path, float], failure: str) -> None:
    result = broken(failure, *EVALUATE)
    assert only_text(result.stdout)["perplexity"] == trained[1]
    assert using_cpu(result.stderr).startswith(f"using the CPU: {FAILURES[failure]}")
    refused(broken(failure, *EVALUATE, "--device", "cuda", code=1).stderr, failure)


@pytest.mark.parametrize(
    "failure", ["no device", "wrong numbers", pytest.param("little memory", marks=pytest.mark.slow_gpu)]
)
def test_scoring(broken: Broken, failure: str) -> None:
    for command in (("score", "cpu", "corpus.txt"), ("generate", "cpu"), ("next", "cpu", "--after", "a")):
        on_cpu = broken(failure, *command, "--device", "cpu")
        result = broken(failure, *command, "--device", "auto")
        assert result.stdout == on_cpu.stdout
        assert using_cpu(result.stderr).startswith(f"using the CPU: {FAILURES[failure]}")
        refused(broken(failure, *command, "--device", "cuda", code=1).stderr, failure)


def test_quiet(broken: Broken) -> None:
    assert broken("no device", *TRAIN, "quiet", "--quiet").stderr == b""


@pytest.mark.parametrize("failure", [*DRIVERS, *TRIALS])
def test_doctor_names_what_is_wrong(broken_at_import: Broken, failure: str) -> None:
    result = broken_at_import(failure, "doctor", "--device", "cuda", code=1)
    state = "broken " if failure in TRIALS else "missing"
    assert f"  {state}  GPU             {FAILURES[failure]}" in result.stdout.decode()
    assert one_sentence(result.stderr).startswith(f"neglm: --device cuda cannot be used: {FAILURES[failure]}")


@pytest.mark.parametrize(("failure", "code"), [("no device", 0), ("old driver", 0), ("wrong numbers", 1)])
def test_doctor_examines_the_cpu(broken: Broken, failure: str, code: int) -> None:
    """A GPU that is present but does not work counts as a failure."""
    result = broken(failure, "doctor", "--quick", code=code)
    assert FAILURES[failure] in result.stdout.decode()
    verdict = "neglm works on the CPU" if not code else "failed: GPU; please report it"
    assert result.stdout.decode().splitlines()[-1].startswith(f"verdict: {verdict}")
    assert using_cpu(result.stderr).startswith(f"using the CPU: {FAILURES[failure]}")
