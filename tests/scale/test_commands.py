"""Commands give the same results under mpirun as without it."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neglm_cli.lm.model import LanguageModel
from neglm_cli.store.locking import exclusive
from neglm_cli.vectors.vectors import Vectors
from tests.conftest import late_signal, one_sentence
from tests.cut_short import RANK, cut_short
from tests.scale.running import MPIRUN, NEGLM, SECONDS, environment, mpirun, neglm

TINY = (
    "--hidden", "12", "--k", "5", "--batch", "4", "--bptt", "7", "--threads", "1", "--quiet",
)  # fmt: skip
TERMINATED = 128 + signal.SIGTERM


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Return lines in which each word determines the next, so that there is something to learn."""
    random = np.random.default_rng(1)
    lines = []
    for _ in range(900):
        first = int(random.zipf(1.5)) % 60
        lines.append(" ".join(f"w{(first + step * step) % 60}" for step in range(int(random.integers(1, 12)))))
    path = tmp_path / "text.txt"
    path.write_text("\n".join(lines))  # the last line has no newline
    return path


def words(path: Path) -> None:
    """Write more distinct words than fit into the memory of one alltoall."""
    random = np.random.default_rng(2)
    path.write_text("\n".join(" ".join(map(str, random.integers(0, 30_000, 50))) for _ in range(3000)) + " tail")


@pytest.mark.parametrize(
    "options", [(), ("--min-count", "4", "--max-vocab", "5000"), ("--memory", "1M", "--format", "text")]
)
def test_vocab_gives_the_same_bytes(tmp_path: Path, options: tuple[str, ...]) -> None:
    words(tmp_path / "a.txt")
    (tmp_path / "b.txt").write_bytes(b"0 1 \xff <unk> <eos>\n\n" + b"x" * 100_000)
    subprocess.run(["gzip", "-k", "a.txt"], cwd=tmp_path, check=True)
    texts = ["a.txt", "b.txt", "a.txt.gz"]
    neglm(1, "vocab", *texts, *options, "-o", "one", cwd=tmp_path)
    neglm(3, "vocab", *texts, *options, "-o", "three", cwd=tmp_path)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "three").read_bytes()


def parameters(path: Path) -> dict[str, np.ndarray]:
    tensors = LanguageModel.load(str(path)).tensors
    return {name: np.array(values) for name, values in tensors.items() if values.dtype == np.float32}


def assert_same(one: Path, other: Path) -> None:
    theirs = parameters(other)
    for name, values in parameters(one).items():
        np.testing.assert_array_equal(values, theirs[name], err_msg=name)


@pytest.mark.parametrize(("noise", "processes"), [("token", 4), ("batch", 2)])
def test_train_lm_trains_the_same_model(text: Path, noise: str, processes: int) -> None:
    here = text.parent
    options = ("train-lm", "text.txt", *TINY, "--noise", noise, "--epochs", "2", "--valid", "text.txt", "--json")
    one, several = (
        json.loads(neglm(number, *options, "-o", f"{name}.st", "--log", f"{name}.log", cwd=here).stdout)
        for number, name in ((1, "one"), (processes, "several"))
    )
    assert_same(here / "one.st", here / "several.st")
    assert one["valid_perplexity"] == pytest.approx(several["valid_perplexity"], rel=1e-12)
    assert several["ranks"] == processes
    assert several["bytes_sent"] > 0
    assert "ranks" not in one
    assert sorted(path.name for path in here.iterdir()) == [
        "one.log", "one.st", "several.log", "several.st", "text.txt",
    ]  # fmt: skip
    records = [json.loads(line) for line in (here / "several.log").read_text().splitlines()]
    assert {record["rank"] for record in records} == {0}


def test_train_lm_resumes_with_another_number_of_ranks(text: Path) -> None:
    """SIGTERM to one rank: all ranks save one checkpoint and exit."""
    here = text.parent
    whole = ("train-lm", "text.txt", *TINY, "--epochs", "3")
    neglm(1, *whole, "-o", "whole.st", cwd=here)
    minibatch = "neglm_cli.runs.loop:RunningLoss.add"
    command = cut_short(signal.SIGTERM, minibatch, "20", *whole, "-o", "parts.st")
    errors = mpirun(4, *command, cwd=here, code=TERMINATED, variables={RANK: "1"}).stderr
    checkpoint = here / "parts.st.partial"
    assert one_sentence(errors) == "neglm: rank 0: terminated"
    assert LanguageModel.load(str(checkpoint)).progress.step > 0
    neglm(2, "train-lm", "--resume", "-o", "parts.st", "--quiet", cwd=here)
    assert not checkpoint.exists()
    assert_same(here / "whole.st", here / "parts.st")


# A signal after the training has stopped because another rank received one.
LATE = late_signal("neglm_cli.runs.loop")


@pytest.mark.parametrize(
    ("command", "module", "function", "first"),
    [
        (["train-lm", "text.txt", *TINY], "lm", "save", ""),
        (["train-lm", "text.txt", *TINY], "lm", "save", LATE),
        (["embed", "text.txt", "--min-count", "1", "--threads", "1", "--quiet"], "sgns", "write_vectors", ""),
    ],
)
def test_slow_checkpoints_are_completed(text: Path, command: list[str], module: str, function: str, first: str) -> None:
    """Writing takes longer than failed ranks wait for each other."""
    here = text.parent
    arguments = [*command, "--epochs", "100000", "-o", "m.st", "--checkpoint", "0.05"]
    program = (
        f"{first}import sys, time; from neglm_cli.cli.main import run; from neglm_cli.{module} import job; "
        f"write = job.{function}; job.{function} = lambda *given: (time.sleep(6), write(*given)); "
        f"sys.exit(run({arguments}))"
    )
    job = subprocess.Popen(
        [MPIRUN, "-n", "2", NEGLM[0], "-c", program, "neglm_cli"], cwd=here, env=environment(), stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    checkpoint = here / "m.st.partial"
    _wait_for(checkpoint, job)
    before = checkpoint.stat().st_mtime_ns
    for number in _ranks(job)[: 1 if first else 2]:
        os.kill(number, signal.SIGTERM)
    _, errors = job.communicate(timeout=SECONDS)
    assert job.returncode == TERMINATED, errors.decode()
    assert one_sentence(errors) == "neglm: rank 0: terminated"
    assert checkpoint.stat().st_mtime_ns > before  # it was rewritten


def test_a_killed_rank_ends_the_job_and_leaves_the_state(text: Path) -> None:
    here = text.parent
    command = ("train-lm", "text.txt", *TINY, "--epochs", "5000", "-o", "m.st", "--checkpoint", "0.05")
    job = subprocess.Popen(
        [MPIRUN, "-n", "2", *NEGLM, *command], cwd=here, env=environment(), stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    _wait_for(here / "m.st.partial", job)
    os.kill(_ranks(job)[1], signal.SIGKILL)
    said, _ = job.communicate(timeout=SECONDS)
    assert job.returncode != 0
    assert b"Killed" in said
    LanguageModel.load(str(here / "m.st.partial"))  # complete


def _wait_for(path: Path, job: "subprocess.Popen[bytes]") -> None:
    while not path.exists():
        assert job.poll() is None, f"it has ended without {path}"
        time.sleep(0.05)


def _ranks(job: "subprocess.Popen[bytes]") -> list[int]:
    """Return the process ids of a job's ranks, in order."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            variables = (process / "environ").read_bytes().split(b"\0")
            command = (process / "cmdline").read_bytes()
            is_below = _is_below(process.name, job.pid)
        except OSError:  # it has exited
            continue
        rank = next((value for value in variables if value.startswith(b"PMI_RANK=")), None)
        if rank is not None and b"neglm_cli" in command and is_below:
            found.append((int(rank.partition(b"=")[2]), int(process.name)))
    return [number for _, number in sorted(found)]


def _is_below(process: str, ancestor: int) -> bool:
    while process not in ("0", str(ancestor)):
        process = Path("/proc", process, "stat").read_text().rpartition(")")[2].split()[1]
    return process != "0"


def test_eval_gives_the_same_figures(text: Path) -> None:
    here = text.parent
    (here / "second.txt").write_text("w1 w2 w5\nw9 new\n\nw1")
    neglm(1, "train-lm", "text.txt", *TINY, "--epochs", "1", "-o", "m.st", cwd=here)
    for tests in (["text.txt"], ["text.txt", "second.txt"], ["second.txt"]):
        for form in (["--json"], ["--per-line"]):
            command = ["eval", "m.st", "--test", *tests, *form, "--threads", "1"]
            one, two = (neglm(processes, *command, cwd=here).stdout.decode() for processes in (1, 2))
            if form == ["--per-line"]:
                assert one == two
            else:
                figures = [_figures(json.loads(said)) for said in (one, two)]
                assert figures[0] == pytest.approx(figures[1], rel=1e-9)


def _figures(found: Any) -> list[float]:
    return [value for result in found["test"] for name, value in sorted(result.items())
            if isinstance(value, float | int) and "second" not in name]  # fmt: skip


@pytest.mark.parametrize("subwords", [(), ("--subwords", "2-3"), ("--subwords", "2-3", "--floret"), ("--cbow",)])
def test_embed_averages(text: Path, subwords: tuple[str, ...]) -> None:
    """All ranks end with the same vectors, about as good as those of a single one."""
    here = text.parent
    training = ["--size", "16", "--min-count", "1", "--epochs", "5", "--threads", "1"]
    options = ["embed", "text.txt", *training, "--json", *subwords]
    losses = {}
    for processes in (1, 2):
        said = neglm(processes, *options, "-o", f"{processes}.st", cwd=here)
        losses[processes] = json.loads(said.stdout)["loss"]
        assert Vectors.load(str(here / f"{processes}.st")).progress["done"] > 0
    assert losses[1] == pytest.approx(losses[2], rel=0.1)
    assert sorted(path.name for path in here.iterdir()) == ["1.st", "2.st", "text.txt"]


def test_embed_of_pairs_is_reproducible(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("".join(f"a{i % 7}\tb{i % 5}\t{1 + i}\n" for i in range(200)))
    options = ("embed", "--pairs", "pairs.tsv", "--size", "8", "--deterministic", "--threads", "1", "--quiet")
    for name in ("first.st", "second.st"):
        neglm(2, *options, "-o", name, cwd=tmp_path)
    assert (tmp_path / "first.st").read_bytes() == (tmp_path / "second.st").read_bytes()


@pytest.mark.parametrize(
    ("command", "sentence", "code"),
    [
        (["train-lm", "none.txt"], "none.txt does not exist", 1),
        (["train-lm", "text.txt", "--hidden", "0"], "--hidden must be at least 1", 2),
        (["train-lm", "text.txt", "--batch", "1"], "a batch of 1 row cannot be divided among 2 ranks", 1),
        (["train-lm", "text.txt", "--dry-run"], "--dry-run runs in a single process", 2),
        (["vocab", "-"], "standard input cannot be read by 2 processes", 1),
        (["vocab", "text.txt", "--min-count", "100000"], "leaves no words", 1),
        (["vocab", "--merge", "text.txt"], "--merge runs in a single process", 2),
        (["info", "text.txt"], "`neglm info` runs in a single process", 1),
        (["embed", "--pairs", "text.txt", "--full-batch"], "--full-batch runs in a single process", 2),
    ],
)
def test_one_sentence_for_all(text: Path, command: list[str], sentence: str, code: int) -> None:
    result = neglm(2, *command, "--quiet", cwd=text.parent, code=code)
    assert sentence in one_sentence(result.stderr)
    assert list(text.parent.iterdir()) == [text]


def test_ranks_with_different_arguments_are_refused(text: Path) -> None:
    here = text.parent
    (here / "other.txt").write_text("other words")
    command = [*NEGLM, "vocab", "text.txt", ":", "-n", "1", *NEGLM, "vocab", "other.txt"]
    said = one_sentence(mpirun(1, *command, cwd=here, code=1).stderr)
    assert "rank 1 does not have the same arguments as rank 0" in said


def _strangers(cwd: Path, rank: str, size: str) -> "list[subprocess.Popen[bytes]]":
    """Start two processes whose launcher does not belong to the MPI library."""
    return [
        subprocess.Popen(
            [*NEGLM, "vocab", "text.txt"], cwd=cwd, env=environment() | {rank: str(number), size: "2"},
            stderr=subprocess.PIPE,
        )
        for number in (0, 1)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rank", "size", "sentence"),
    [
        ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "2 processes were started, but MPI sees 1: mpirun, or srun"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "started by Open MPI, but mpi4py finds MPICH: mpirun, or"),
    ],
)
def test_a_launcher_of_another_mpi_library_is_refused(text: Path, rank: str, size: str, sentence: str) -> None:
    """Only rank 0 prints the error."""
    first, other = _strangers(text.parent, rank, size)
    said = one_sentence(first.communicate(timeout=SECONDS)[1])
    assert sentence in said
    assert other.communicate(timeout=SECONDS)[1] == b""
    assert first.returncode == other.returncode == 1
    assert list(text.parent.iterdir()) == [text]


def test_different_texts_are_refused(text: Path) -> None:
    here, there = text.parent, text.parent / "there"
    there.mkdir()
    changed = bytearray(text.read_bytes())
    changed[0:1] = b"x"
    (there / "text.txt").write_bytes(changed)
    command = [*NEGLM, "vocab", "text.txt", ":", "-n", "1", "-wdir", str(there), *NEGLM, "vocab", "text.txt"]
    said = one_sentence(mpirun(1, *command, cwd=here, code=1).stderr)
    assert "rank 1 does not have the same texts as rank 0" in said


def test_a_model_that_another_job_trains_is_refused(text: Path) -> None:
    with exclusive(str(text.parent / "model")):
        said = one_sentence(mpirun(2, *NEGLM, "train-lm", text.name, "-o", "model", cwd=text.parent, code=1).stderr)
    assert "model is being made by another process" in said
    assert list(text.parent.iterdir()) == [text]


def test_one_process_does_not_import_mpi(text: Path) -> None:
    program = (
        "import sys; from neglm_cli.cli.main import run; run(['vocab', 'text.txt', '-q']); "
        "assert 'mpi4py' not in sys.modules"
    )
    subprocess.run([NEGLM[0], "-c", program], cwd=text.parent, env=environment(), check=True)
    assert b"neglm" in mpirun(1, *NEGLM, "--version", cwd=text.parent).stdout


def test_filter_gives_the_same_bytes(tmp_path: Path, text: Path) -> None:
    many = text.read_text() + "\n"
    (tmp_path / "many.txt").write_text(many * 3)  # more than one batch
    neglm(1, "train-lm", "text.txt", *TINY, "--epochs", "1", cwd=tmp_path)
    asked = ("filter", "-m", "model.safetensors", "many.txt", "--keep", "10%..80%", "--threads", "1", "-o")
    neglm(1, *asked, "one", cwd=tmp_path)
    neglm(2, *asked, "two", cwd=tmp_path)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert 0 < (tmp_path / "one").read_bytes().count(b"\n") < 2700
    assert not list(tmp_path.glob("*.partial*"))


def test_minimal_pairs_have_the_same_accuracy(tmp_path: Path, text: Path) -> None:
    sentences = text.read_text().splitlines()
    pairs = [f"{line}\t{' '.join(reversed(line.split()))}\n" for line in sentences if " " in line]
    (tmp_path / "pairs.tsv").write_text("".join(pairs))
    neglm(1, "train-lm", "text.txt", *TINY, "--epochs", "1", cwd=tmp_path)
    one, two = (
        json.loads(
            neglm(ranks, "eval", "--minimal-pairs", "pairs.tsv", "--json", "--threads", "1", cwd=tmp_path).stdout
        )
        for ranks in (1, 2)
    )
    assert one == two
    assert one["minimal_pairs"][0]["total"]["pairs"] == len(pairs)
