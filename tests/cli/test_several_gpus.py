"""`--device cuda:0,1` and `cuda:all`, on two software GPUs: the command starts a rank for each."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from neglm_cli.cli.several_gpus import HELLO, _obey
from neglm_cli.lm.model import LanguageModel
from tests.cli.test_software_gpu import SETTINGS, assert_same_model, write_corpus
from tests.conftest import COMMAND, one_sentence, only_text
from tests.cut_short import RANK, cut_short
from tests.lm.cuda.software.build import build, missing
from tests.lm.cuda.software.machine import Machine
from tests.scale.running import MPIRUN, SECONDS

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

TRAIN = ("train-lm", "corpus.txt", *SETTINGS, "--output")
CHECKPOINT = "checkpoint written to model.partial; continue with --resume"
BOTH = "using software GPU (cuda:0), software GPU (cuda:1)"

Run = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture(scope="module")
def gpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine with two GPUs."""
    kernels = tmp_path_factory.getbasetemp().parent / "software-gpu-kernels"
    started = Machine(build(tmp_path_factory.mktemp("gpu"), kernels) | {"SOFTWARE_GPUS": "2"})
    yield started
    started.close()


@pytest.fixture
def machine(gpus: Machine) -> dict[str, str]:
    """Return the environment of that machine."""
    return gpus.environment


@pytest.fixture
def run(machine: dict[str, str], workplace: Path) -> Run:
    """Start a process, which may start ranks."""
    write_corpus()

    def run(*arguments: str, code: int = 0, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[bytes]:
        done = subprocess.run([*before, *COMMAND, *arguments], capture_output=True, env=machine, timeout=SECONDS)
        assert done.returncode == code, done.stderr.decode()
        return done

    return run


@pytest.fixture
def alone(gpus: Machine, workplace: Path) -> Run:
    """Run a command that starts no ranks."""
    write_corpus()

    def run(*arguments: str, code: int = 0, **variables: str) -> subprocess.CompletedProcess[bytes]:
        done = gpus.run(arguments, workplace, **variables)
        assert done.returncode == code, done.stderr.decode()
        return done

    return run


def test_the_same_model_as_under_mpirun_and_on_one_gpu(run: Run, alone: Run) -> None:
    several = run(*TRAIN, "several", "--device", "cuda:0,1", "--json")
    assert json.loads(several.stdout)["ranks"] == 2
    assert several.stderr.decode().count(BOTH) == 1
    run(*TRAIN, "mpi", "--device", "cuda", before=(MPIRUN, "-n", "2"))
    assert_same_model("several", "mpi")
    alone(*TRAIN, "one", "--device", "cuda:1")
    assert_same_model("several", "one")


def test_evaluating_on_all_gpus(run: Run, alone: Run) -> None:
    alone(*TRAIN, "model", "--device", "cpu")
    evaluate = ("eval", "model", "--test", "corpus.txt", "--json", "--device")
    several, one = run(*evaluate, "cuda:all"), alone(*evaluate, "cuda:1")
    assert BOTH in several.stderr.decode()
    assert "using software GPU (cuda:1)" in one.stderr.decode()
    assert only_text(several.stdout)["perplexity"] == pytest.approx(only_text(one.stdout)["perplexity"], rel=1e-5)
    written = run("filter", "model", "corpus.txt", "--device", "cuda:1,0")
    assert written.stdout.count(b"\n") == 60
    assert "using software GPU (cuda:1), software GPU (cuda:0)" in written.stderr.decode()


def test_all_of_one_gpu_starts_no_launcher(alone: Run) -> None:
    alone(*TRAIN, "model", "--device", "cpu")
    result = alone("eval", "model", "--test", "corpus.txt", "--device", "cuda:all", SOFTWARE_GPUS="1", PATH="/nowhere")
    assert "using software GPU (cuda:0)" in result.stderr.decode()


@pytest.mark.parametrize(
    ("device", "sentence", "code"),
    [
        ("cuda:", "--device cuda: is none of auto, cpu, cuda, cuda:1 for the second GPU, cuda:0,1 for two", 2),
        ("cuda:a", "--device cuda:a is none of auto", 2),
        ("cuda:0,", "--device cuda:0, is none of auto", 2),
        ("cuda:0,0", "--device cuda:0,0 has GPU 0 more than once: name each GPU once.", 2),
        ("cuda:7", "--device cuda:7 cannot be used: the last NVIDIA GPU is cuda:1", 1),
        ("cuda:0,7", "--device cuda:0,7 cannot be used: the last NVIDIA GPU is cuda:1", 1),
    ],
)
def test_bad_lists(alone: Run, device: str, sentence: str, code: int) -> None:
    result = alone(*TRAIN, "model", "--device", device, code=code)
    assert one_sentence(result.stderr).startswith(f"neglm: {sentence}")
    assert os.listdir() == ["corpus.txt"]


@pytest.mark.parametrize("command", [("score", "model", "corpus.txt"), (*TRAIN, "new", "--dry-run")])
def test_commands_of_one_process_refuse_lists(alone: Run, command: tuple[str, ...]) -> None:
    result = alone(*command, "--device", "cuda:all", code=2)
    assert "--device cuda:all names 2 GPUs, but this is one process, which uses one" in one_sentence(result.stderr)


def test_another_number_of_ranks_is_refused(run: Run) -> None:
    result = run(*TRAIN, "model", "--device", "cuda:0,1", code=1, before=(MPIRUN, "-n", "3"))
    assert "names 2 GPUs, but 3 ranks run on this machine" in one_sentence(result.stderr)


def test_a_failure_of_all_ranks_is_one_sentence(run: Run) -> None:
    result = run("train-lm", "none.txt", "--device", "cuda:0,1", code=1)
    assert result.stderr.decode().splitlines() == [BOTH, "neglm: rank 0: none.txt does not exist"]


def test_without_mpi4py_or_a_launcher(run: Run, machine: dict[str, str]) -> None:
    """The launcher is looked for beside Python, too: sys.executable is in another directory here."""
    hide = (
        "import importlib.util as util, sys; real = util.find_spec; "
        "util.find_spec = lambda name, *given: None if name == 'mpi4py' else real(name, *given); "
        "from neglm_cli.__main__ import main; main()"
    )
    alone = "import sys; sys.executable = '/nowhere/python'; from neglm_cli.__main__ import main; main()"
    for program, sentence in (
        (hide, "several GPUs need mpi4py, which is not installed: pip install 'neglm[mpi]'"),
        (alone, "several GPUs need mpiexec, which is not on the PATH: pip install 'neglm[mpi]'"),
    ):
        command = [sys.executable, "-c", program, *TRAIN, "model", "--device", "cuda:0,1"]
        result = subprocess.run(command, capture_output=True, env=machine | {"PATH": "/nowhere"})
        assert result.returncode == 1
        assert one_sentence(result.stderr).startswith(f"neglm: {sentence}")


def started(machine: dict[str, str], *command: str) -> "subprocess.Popen[bytes]":
    """Start a training, and wait for its first checkpoint."""
    job = subprocess.Popen([*COMMAND, *command], env=machine, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    while not Path("model.partial").exists():
        assert job.poll() is None
        time.sleep(0.05)
    return job


LONG = (*TRAIN, "model", "--device", "cuda:0,1", "--epochs", "1000", "--checkpoint", "0.05")


@pytest.mark.parametrize(
    ("number", "ending"),
    [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated"), (signal.SIGHUP, "terminated")],
)
def test_signals_leave_a_checkpoint(run: Run, machine: dict[str, str], number: int, ending: str) -> None:
    job = started(machine, *LONG)
    job.send_signal(number)
    _, errors = job.communicate(timeout=SECONDS)
    assert job.returncode == 128 + number
    assert errors.decode().splitlines()[-2:] == [CHECKPOINT, f"neglm: rank 0: {ending}"]


def test_resuming(run: Run, alone: Run, machine: dict[str, str]) -> None:
    """Rank 0 gets a signal after some minibatches; the command has its exit code."""
    alone(*TRAIN, "whole", "--device", "cuda:0")
    command = cut_short(
        signal.SIGTERM, "neglm_cli.runs.loop:RunningLoss.add", "20", *TRAIN, "model", "--device", "cuda:0,1"
    )
    stopped = subprocess.run(command, env=machine | {RANK: "0"}, capture_output=True, timeout=SECONDS)
    assert stopped.returncode == 128 + signal.SIGTERM, stopped.stderr.decode()
    assert LanguageModel.load("model.partial").progress.step > 0
    run("train-lm", "--resume", "--output", "model", "--device", "cuda:all", "--no-cache")
    assert_same_model("model", "whole")


def test_ranks_end_when_the_command_is_killed(run: Run, machine: dict[str, str]) -> None:
    """All of them write to its standard error, which ends when they do."""
    job = started(machine, *LONG)
    job.kill()
    _, errors = job.communicate(timeout=SECONDS)
    assert job.returncode == -signal.SIGKILL
    assert errors.decode().splitlines()[-2:] == [CHECKPOINT, "neglm: rank 0: terminated"]


def test_a_rank_that_has_ended_does_not_keep_a_signal_from_others() -> None:
    ended, living = (subprocess.Popen(["sleep", seconds]) for seconds in ("0", "60"))
    ended.wait()
    source, sender = os.pipe()
    os.write(sender, bytes([HELLO, signal.SIGTERM]))
    _obey(source, [living.pid, ended.pid])
    assert living.wait(timeout=SECONDS) == -signal.SIGTERM
    os.close(source)
    os.close(sender)


def test_doctor_names_all_gpus(machine: dict[str, str], workplace: Path) -> None:
    """Only this row: the checks of a GPU take minutes here."""
    smi = Path("nvidia-smi")
    smi.write_text("#!/bin/sh\necho 'GPU-08080808-0808-0808-0808-080808080808, 2000'\n", encoding="ascii")
    smi.chmod(0o755)
    program = "from neglm_cli.cli.doctor_run import all_gpus_rows; print(all_gpus_rows()[0].what)"
    path = os.pathsep.join([str(workplace), machine["PATH"]])
    result = subprocess.run([sys.executable, "-c", program], env=machine | {"PATH": path}, capture_output=True)
    assert result.stdout == b"cuda:0 software GPU; cuda:1 software GPU, 2.1 GB free\n", result.stderr.decode()
