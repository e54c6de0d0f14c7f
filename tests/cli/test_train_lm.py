"""`neglm train-lm` on the command line."""

import gzip
import json
import math
import os
import random
import resource
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neglm_cli.cli.train_lm_run import Log
from neglm_cli.lm.model import CHECKPOINT, LanguageModel
from neglm_cli.runs.host import Report
from neglm_cli.settings.train_lm import Settings
from tests.conftest import COMMAND, Neglm, one_sentence, only_text, users_environment
from tests.cut_short import cut_short
from tests.sgns.making import some_text

SMALL = ("--hidden", "9", "--k", "4", "--batch", "3", "--bptt", "6", "--epochs", "2", "--no-cache", "--threads", "1")
TWO_THREADS = ("--threads", "2")
NOTES = (
    "compiling", "counting", "training:", "training on", "using the", "checkpoint written", "epoch", "resuming",
    "this training will replace", "2 threads wait for each other on 1 core",
)  # fmt: skip


def sentence(stderr: bytes) -> str:
    """Return the error message: the only line that is not a note."""
    lines = [line for line in stderr.split(b"\n") if not line.decode().startswith(NOTES)]
    return one_sentence(b"\n".join(lines))


@pytest.fixture
def corpus(workplace: Path) -> Path:
    path = workplace / "corpus.txt"
    path.write_bytes(some_text(2000))
    (workplace / "valid.txt").write_bytes(some_text(2500)[-2000:])
    return path


def refused(neglm: Neglm, *arguments: str, code: int = 1, **options: Any) -> str:
    before = sorted(os.listdir())
    message = sentence(neglm("train-lm", *arguments, code=code, **options).stderr)
    assert sorted(os.listdir()) == before
    return message


def test_the_three_lines(neglm: Neglm, corpus: Path) -> None:
    """As written, except for the number of epochs; all defaults are the paper's, except for where training starts."""
    (corpus.parent / "ptb.test.txt").write_bytes(some_text(500))
    neglm("vocab", "corpus.txt")
    trained = neglm("train-lm", "--loss", "neglm", "--k", "100", "--epochs", "1", NEGLM_CACHE="cache")
    assert b"training on corpus.txt, the corpus of the vocabulary" in trained.stderr
    assert trained.stdout.startswith(b"model.safetensors: neglm, ")
    result = neglm("eval", "--test", "ptb.test.txt")
    assert b"perplexity" in result.stdout
    model = LanguageModel.load("model.safetensors")
    assert model.settings == Settings(epochs=1, log_z=math.log(100), threads=len(os.sched_getaffinity(0)))
    assert model.files[0]["path"] == "corpus.txt"
    assert sorted(os.listdir()) == [
        "cache", "corpus.txt", "model.safetensors", "ptb.test.txt", "valid.txt", "vocab.safetensors",
    ]  # fmt: skip


def test_presets_are_the_papers(neglm: Neglm, corpus: Path) -> None:
    ptb = json.loads(neglm("train-lm", "corpus.txt", "--dry-run", "--json").stdout)
    assert ptb["epochs"] == 39
    assert ptb["parameters"] == ptb["vocabulary"] * (300 + 300) + 2 * 4 * 300 * 601
    large = json.loads(neglm("train-lm", "corpus.txt", "--preset", "1b", "--dry-run", "--json", "--batch", "9").stdout)
    assert (large["epochs"], large["objective"]) == (1, "neglm")
    assert large["parameters"] == large["vocabulary"] * (512 + 512) + 4 * 512 * 1025


def test_the_large_preset_is_the_modern_one_with_more_units(neglm: Neglm, corpus: Path) -> None:
    small = ("--hidden", "8", "--epochs", "1", "--threads", "1")
    settings = {}
    for preset in ("modern", "large"):
        neglm("train-lm", "corpus.txt", "--preset", preset, *small, "-o", preset)
        settings[preset] = json.loads(neglm("info", "--json", preset).stdout)["metadata"]["arguments"]
    modern, large = settings["modern"], settings["large"]
    assert {name: large[name] for name in large if large[name] != modern[name]} == {"dropout": 0.5, "init_range": 0.05}
    dry = json.loads(neglm("train-lm", "corpus.txt", "--preset", "large", "--dry-run", "--json").stdout)
    assert dry["epochs"] == 42
    assert dry["parameters"] == dry["vocabulary"] * 650 + 2 * 4 * 650 * 1301


@pytest.mark.parametrize(("options", "tables"), [((), 1), (("--no-tie",), 2), (("--tie",), 1)])
def test_options_count_more_than_a_preset(neglm: Neglm, corpus: Path, options: tuple[str, ...], tables: int) -> None:
    shape = ("--hidden", "9", "--epochs", "3")
    dry = neglm("train-lm", "corpus.txt", "--preset", "modern", *shape, *options, "--dry-run", "--json")
    found = json.loads(dry.stdout)
    assert found["epochs"] == 3
    assert found["parameters"] == found["vocabulary"] * tables * 9 + 2 * 4 * 9 * 19


@pytest.mark.parametrize(("loss", "biases"), [("neglm", 0), ("neg", 0), ("neglm-b", 1), ("nce", 1), ("softmax", 1)])
def test_losses_without_a_bias_have_fewer_parameters(neglm: Neglm, corpus: Path, loss: str, biases: int) -> None:
    found = json.loads(neglm("train-lm", "corpus.txt", *SMALL, "--loss", loss, "--dry-run", "--json").stdout)
    assert found["parameters"] == found["vocabulary"] * (9 + 9 + biases) + 2 * 4 * 9 * 19


def test_a_dry_run_says_what_it_takes_and_writes_nothing(neglm: Neglm, corpus: Path) -> None:
    before = sorted(os.listdir())
    result = neglm("train-lm", "corpus.txt", *SMALL, "--dry-run")
    assert sorted(os.listdir()) == before
    for word in (b"parameters", b"memory", b"disk", b"time"):
        assert word in result.stdout
    numbers = json.loads(neglm("train-lm", "corpus.txt", *SMALL, "--optimizer", "adam", "--dry-run", "--json").stdout)
    neglm("train-lm", "corpus.txt", *SMALL, "--optimizer", "adam")
    size = os.path.getsize("model.safetensors")
    assert 0.9 * size < numbers["disk_bytes"]["model"] <= size
    assert numbers["disk_bytes"]["checkpoint"] > 2.5 * numbers["disk_bytes"]["model"]


def test_pipes_and_compressed_files_give_the_same(neglm: Neglm, corpus: Path) -> None:
    neglm("train-lm", "corpus.txt", *SMALL, "-o", "plain")
    Path("corpus.gz").write_bytes(gzip.compress(corpus.read_bytes()))
    neglm("train-lm", "corpus.gz", *SMALL, "-o", "compressed")
    neglm("train-lm", "-", *SMALL, "-o", "piped", stdin=corpus.read_bytes())
    plain, *others = (LanguageModel.load(name) for name in ("plain", "compressed", "piped"))
    for other in others:
        for name, tensor in plain.tensors.items():
            np.testing.assert_array_equal(tensor, other.tensors[name])
    assert others[1].files[0]["path"] is None


def test_the_same_seed_gives_the_same_bytes(neglm: Neglm, corpus: Path) -> None:
    for name in ("one", "two"):
        neglm("train-lm", "corpus.txt", *SMALL, *TWO_THREADS, "--seed", "7", "--output", name)
    neglm("train-lm", "corpus.txt", *SMALL, *TWO_THREADS, "--seed", "8", "--output", "other")
    assert Path("one").read_bytes() == Path("two").read_bytes()
    assert Path("one").read_bytes() != Path("other").read_bytes()


def test_a_model_to_standard_output(neglm: Neglm, corpus: Path) -> None:
    neglm("train-lm", "corpus.txt", *SMALL, "--output", "file")
    result = neglm("train-lm", "corpus.txt", *SMALL, "--output", "-")
    assert result.stdout == Path("file").read_bytes()
    assert not Path("-.partial").exists()


def test_the_best_model_is_kept_and_patience_ends(neglm: Neglm, corpus: Path) -> None:
    """At a very high learning rate, later epochs are worse."""
    options = ("--epochs", "30", "--valid", "valid.txt", "--patience", "3", "--lr", "3", "--decay", "1", "--log", "log")
    neglm("train-lm", "corpus.txt", *SMALL, *options)
    model = LanguageModel.load("model.safetensors")
    lines = [json.loads(line) for line in Path("log").read_text().splitlines()]
    ends = [line for line in lines if line["event"] == "epoch"]
    found = [line["valid_perplexity"] for line in ends]
    best = found.index(min(found))
    assert len(found) == best + 4 < 30
    assert [line["best"] for line in ends] == [value == min(found[: i + 1]) for i, value in enumerate(found)]
    assert model.progress.epoch == best + 1
    result = only_text(neglm("eval", "--test", "valid.txt", "--json").stdout)
    assert result["perplexity"] == pytest.approx(min(found), rel=1e-6)
    assert not Path("model.safetensors.partial").exists()


def test_the_log_has_the_documented_fields(neglm: Neglm, corpus: Path) -> None:
    neglm("train-lm", "corpus.txt", *SMALL, "--log", "log")
    lines = [json.loads(line) for line in Path("log").read_text().splitlines()]
    assert [line["event"] for line in lines if line["event"] != "progress"] == ["epoch", "epoch", "end"]
    for line in lines:
        assert {"event", "epoch", "step", "tokens", "seconds", "words_per_second", "learning_rate"} <= set(line)
    assert [line["epoch"] for line in lines if line["event"] == "epoch"] == [1, 2]
    assert "loss" in lines[-2]
    assert [line["loss_tokens"] for line in lines if line["event"] == "epoch"] == [lines[-1]["tokens"] // 2] * 2


def test_a_report_after_a_long_validation_covers_the_time_since(corpus: Path) -> None:
    """A fake clock: a minibatch takes a second, a validation a hundred; reports are ten seconds apart."""
    program = (
        "import sys; from types import SimpleNamespace; from neglm_cli.cli import main; "
        "from neglm_cli.runs import loop; "
        "from neglm_cli.lm.job import Job; now = [0.0]; validate = Job.validate; "
        "add = loop.RunningLoss.add\n"
        "def wait(seconds, work, *given):\n    now[0] += seconds\n    return work(*given)\n"
        "loop.time = SimpleNamespace(monotonic=lambda: now[0]); "
        "loop.RunningLoss.add = lambda *given: wait(1, add, *given); "
        "Job.validate = lambda job: wait(100, validate, job); "
        f"sys.exit(main.run(['train-lm', 'corpus.txt', *{SMALL}, '--valid', 'valid.txt', '--log', 'log', "
        "'--checkpoint', '1e9']))"
    )
    subprocess.run([sys.executable, "-c", program], env=users_environment(), check=True, stdout=subprocess.DEVNULL)
    lines = [json.loads(line) for line in Path("log").read_text().splitlines()]
    reports = [line for line in lines if line["event"] == "progress"]
    assert {line["epoch"] for line in reports} == {1, 2}
    assert {line["loss_tokens"] for line in reports} == {11 * 3 * 6}  # minibatches, rows, steps
    for before, line in zip([{"tokens": 0}, *lines], lines, strict=False):
        if line["event"] == "progress":
            assert line["loss_tokens"] == line["tokens"] - before["tokens"]


def test_a_resumed_training_logs_the_loss_of_the_whole_epoch(neglm: Neglm, corpus: Path) -> None:
    neglm("train-lm", "corpus.txt", *LONG, "--output", "whole", "--log", "whole.log")
    kill_a_training()
    neglm("train-lm", "--resume", "--output", "cut", "--no-cache", "--log", "cut.log")
    whole, cut = (
        [json.loads(line) for line in Path(name).read_text().splitlines() if '"epoch", ' in line]
        for name in ("whole.log", "cut.log")
    )
    assert [(line["loss"], line["loss_tokens"]) for line in cut] == [
        (line["loss"], line["loss_tokens"]) for line in whole[-len(cut) :]
    ]


LONG = (*SMALL, "--epochs", "12", "--valid", "valid.txt", "--optimizer", "adam", "--adam", "exact", "--checkpoint", "0")


MINIBATCH = "neglm_cli.runs.loop:RunningLoss.add"
EPOCH = "neglm_cli.runs.loop:Loop._after_epoch"
CHECKPOINT_WRITTEN = "neglm_cli.lm.job:Job.save_checkpoint"  # the second time, when one exists already


def test_killed_at_any_moment_it_goes_on_to_the_same_bytes(neglm: Neglm, corpus: Path) -> None:
    """Between minibatches, at the end of epochs, and in the middle of writing a file."""
    arguments: tuple[str, ...] = ("corpus.txt", *LONG, *TWO_THREADS)
    neglm("train-lm", *arguments, "--output", "whole")
    chance = random.Random(3)
    for where in (MINIBATCH, "os:fsync", EPOCH, "os:fsync", MINIBATCH):
        moment = str(chance.randrange(2, 300 if where == MINIBATCH else 5))
        command = cut_short(signal.SIGKILL, where, moment, "train-lm", *arguments, "--output", "killed", "--no-cache")
        assert subprocess.run(command, capture_output=True).returncode == -signal.SIGKILL
        if Path("killed.partial").exists():
            arguments = ("--resume", "--checkpoint", "0")
    neglm("train-lm", *arguments, "--output", "killed", "--no-cache")
    assert Path("killed").read_bytes() == Path("whole").read_bytes()
    assert not Path("killed.partial").exists()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_it_saves_and_goes_on(neglm: Neglm, corpus: Path, number: int, code: int) -> None:
    neglm("train-lm", "corpus.txt", *LONG, "--output", "whole")
    arguments = ("train-lm", "corpus.txt", *LONG, "--output", "cut", "--checkpoint", "1000", "--log", "log")
    cut = subprocess.run(cut_short(number, EPOCH, "2", *arguments), capture_output=True)
    errors = cut.stderr
    assert cut.returncode == code, errors
    assert b"checkpoint written to cut.partial; continue with --resume" in errors
    done = json.loads(neglm("info", "cut.partial", "--json").stdout)["metadata"]["progress"]
    assert done["step"] > 0
    so_far = neglm("eval", "cut.partial", "--test", "valid.txt")
    assert b"unfinished" in so_far.stderr
    neglm("train-lm", "--resume", "--output", "cut", "--no-cache", "--log", "log")
    assert Path("cut").read_bytes() == Path("whole").read_bytes()
    epochs = [json.loads(line)["epoch"] for line in Path("log").read_text().splitlines() if '"epoch", ' in line]
    assert epochs[-1] == 12


def kill_a_training() -> None:
    """Kill a run, leaving cut.partial and a stale lock."""
    command = cut_short(signal.SIGKILL, CHECKPOINT_WRITTEN, "2", "train-lm", "corpus.txt", *LONG, "--output", "cut")
    assert subprocess.run(command, capture_output=True).returncode == -signal.SIGKILL
    Path(".cut.lock").unlink()


def test_two_processes_do_not_train_one_model(neglm: Neglm, corpus: Path) -> None:
    neglm("train-lm", "corpus.txt", *LONG, "--output", "whole")
    arguments = ("train-lm", "corpus.txt", *LONG, "--output", "cut", "--log", "log")
    command = cut_short(signal.SIGSTOP, CHECKPOINT_WRITTEN, "2", *arguments)
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
    log = Path("log").read_bytes()
    said = sentence(neglm("train-lm", "--resume", "--output", "cut", "--log", "log", code=1).stderr)
    assert said == "neglm: cut is being made by another process: wait for its end, or name another file"
    assert said == sentence(neglm("train-lm", "corpus.txt", *LONG, "--output", "cut", "--log", "log", code=1).stderr)
    Path("cut.partial").rename("away")  # as before the first checkpoint
    assert said == sentence(neglm("train-lm", "corpus.txt", *LONG, "--output", "cut", "--log", "log", code=1).stderr)
    Path("away").rename("cut.partial")
    assert Path("log").read_bytes() == log
    assert b"cut" in neglm("train-lm", "corpus.txt", *SMALL, "--output", "cut2").stdout
    process.send_signal(signal.SIGCONT)
    assert process.wait() == 0
    assert Path("cut").read_bytes() == Path("whole").read_bytes()
    assert ".cut.lock" not in os.listdir()


def test_going_on_keeps_the_options_and_refuses_others(neglm: Neglm, corpus: Path) -> None:
    kill_a_training()
    assert "started with --hidden 9" in refused(neglm, "--resume", "--output", "cut", "--hidden", "10")
    assert "another text" in refused(neglm, "valid.txt", "--resume", "--output", "cut")
    assert "nothing to resume: none.partial does not exist" in refused(neglm, "--resume", "--output", "none")
    corpus.write_bytes(b"other words\n" * 300)
    assert "changed" in refused(neglm, "--resume", "--output", "cut")


def test_divergence_is_stopped_with_the_last_good_state_kept(neglm: Neglm, corpus: Path) -> None:
    message = refused(neglm, "corpus.txt", *SMALL, "--lr", "1e30", "--clip", "1e30")
    assert "training diverges in step" in message
    assert "norm" in message
    assert "smaller --lr than 1e+30" in message
    assert message.endswith("nothing was written")


def test_an_infinite_perplexity_is_divergence(neglm: Neglm, corpus: Path) -> None:
    options = ("--loss", "softmax", "--lr", "1e8", "--clip", "1e6", "--valid", "valid.txt")
    assert "training diverges" in refused(neglm, "corpus.txt", *SMALL, *options)


def test_an_unfinished_training_is_not_replaced(neglm: Neglm, corpus: Path) -> None:
    Path("model.safetensors.partial").write_bytes(b"days of work")
    message = refused(neglm, "corpus.txt", *SMALL, code=2)
    assert "model.safetensors.partial is an unfinished run: continue it with --resume" in message
    assert Path("model.safetensors.partial").read_bytes() == b"days of work"


def test_two_interrupts_leave_a_good_state(neglm: Neglm, corpus: Path) -> None:
    arguments = ("train-lm", "corpus.txt", *LONG, *TWO_THREADS, "--epochs", "3", "--checkpoint", "1000", "--output")
    neglm(*arguments, "whole")
    cut = subprocess.run(cut_short(signal.SIGINT, MINIBATCH, "150,151,152", *arguments, "cut"), capture_output=True)
    assert cut.returncode == 130, cut.stderr
    neglm("train-lm", "--resume", "--output", "cut", "--no-cache")
    assert Path("cut").read_bytes() == Path("whole").read_bytes()


def test_a_signal_that_another_thread_gets_ends_the_training(neglm: Neglm, corpus: Path) -> None:
    """As when a batch system continues a stopped process and terminates it at once."""
    program = (
        "import signal, sys, threading; from neglm_cli.cli import main; "
        "from neglm_cli.runs.loop import RunningLoss; add = RunningLoss.add; "
        "RunningLoss.add = lambda running, step: "
        "(add(running, step), signal.pthread_kill(threading.get_ident(), signal.SIGTERM)); "
        f"sys.exit(main.run(['train-lm', 'corpus.txt', *{LONG}, '--output', 'cut', '--epochs', '100000']))"
    )
    result = subprocess.run([sys.executable, "-c", program], env=users_environment(), stderr=subprocess.PIPE)
    assert result.returncode == 143, result.stderr
    assert sentence(result.stderr) == "neglm: terminated"
    assert LanguageModel.load("cut.partial", CHECKPOINT).progress.step > 0


def test_a_log_that_cannot_be_written_does_not_end_the_training(neglm: Neglm, corpus: Path) -> None:
    result = neglm("train-lm", "corpus.txt", *SMALL, "--log", "/dev/full")
    assert b"logging is off for the rest of this run" in result.stderr
    LanguageModel.load("model.safetensors")


def test_a_log_that_cannot_be_written_is_closed() -> None:
    with warnings.catch_warnings(record=True) as caught, Log("/dev/full", append=False) as log:
        warnings.simplefilter("always")
        log.write(Report("end", 1, 1, "words", 1.0, 1.0))
        log.write(Report("end", 1, 1, "words", 1.0, 1.0))
    assert not caught  # not even that of a file left open


def test_an_absurd_model_is_estimated_without_making_it(neglm: Neglm, corpus: Path) -> None:
    result = neglm("train-lm", "corpus.txt", "--hidden", "100000", "--layers", "8", "--dry-run")
    assert b"does not have so much memory" in result.stdout


def _small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def test_a_full_disk_leaves_the_last_good_state(neglm: Neglm, corpus: Path) -> None:
    kill_a_training()
    before = Path("cut.partial").read_bytes()
    resumed = [*COMMAND, "train-lm", "--resume", "--output", "cut", "--checkpoint", "0", "--no-cache"]
    result = subprocess.run(resumed, capture_output=True, preexec_fn=_small_files)
    assert result.returncode == 1
    assert "cannot write" in sentence(result.stderr)
    assert "cut.partial is the last good checkpoint" in sentence(result.stderr)
    assert Path("cut.partial").read_bytes() == before
    assert not [name for name in os.listdir() if "incomplete" in name]


REMOVE_WHEN_SAVED = (
    "import shutil, sys; from neglm_cli.cli.main import run; from neglm_cli.{room}.job import Job; "
    "save = Job.{save}; Job.{save} = lambda *given: (save(*given), shutil.rmtree('there')); "
    "sys.exit(run(sys.argv[1:]))"
)


@pytest.mark.parametrize(
    ("room", "save", "arguments"),
    [
        ("lm", "save_checkpoint", ("train-lm", *LONG, "--output", "there/model")),
        ("sgns", "save", ("embed", "--min-count", "1", "--epochs", "1000", "--checkpoint", "0", "-o", "there/model")),
    ],
)
def test_a_state_that_is_gone_is_not_promised(corpus: Path, room: str, save: str, arguments: tuple[str, ...]) -> None:
    Path("there").mkdir()
    program = REMOVE_WHEN_SAVED.format(room=room, save=save)
    command = [sys.executable, "-c", program, arguments[0], "corpus.txt", *arguments[1:], "--quiet"]
    result = subprocess.run(command, env=users_environment(), capture_output=True)
    assert result.returncode == 1, result.stderr
    said = sentence(result.stderr)
    assert "cannot write there/model" in said
    assert said.endswith("; there/model.partial, the last good checkpoint, is gone")


def test_wrong_options_are_one_sentence(neglm: Neglm, corpus: Path) -> None:
    for arguments, part in (
        (("--k", "0"), "--k"),
        (("--noise-alpha", "10.5"), "--noise-alpha"),
        (("--noise-alpha", "nan"), "--noise-alpha"),
        (("--dropout", "1"), "--dropout"),
        (("--lr", "-1"), "--lr"),
        (("--clip", "0"), "--clip"),
        (("--loss", "softmax", "--log-z", "9"), "--log-z is for --loss neglm, neglm-b and nce"),
        (("--bias-init", "0"), "--bias-init is for losses with a bias"),
        (("--loss", "cross-entropy"), "--loss"),
        (("--patience", "2"), "--valid"),
        (("--output", "corpus.txt"), "corpus.txt is one of the inputs"),
        (("--log", "corpus.txt"), "corpus.txt is one of the inputs"),
        (("--resume", "--dry-run"), "--dry-run"),
        (("--resume", "--preset", "1b"), "--preset"),
        (("--adam", "exact"), "--adam is for --optimizer adam"),
        (("--weight-decay", "1.5"), "--weight-decay"),
        (("--weight-decay", "0.1", "--optimizer", "adam", "--adam", "exact"), "--weight-decay needs --adam lazy"),
        (("--schedule", "plateau"), "--schedule plateau needs a text to validate on"),
        (("--schedule", "cosine", "--optimizer", "adam", "--adam", "exact"), "not --schedule cosine"),
        (("--schedule", "cosine", "--decay", "1.5"), "--decay is for --schedule step or plateau"),
        (("--schedule", "cosine", "--decay-from", "2"), "--decay-from is for --schedule step"),
        (("--tie", "--embedding", "5"), "--tie needs --embedding 300"),
        (("--tie", "--hidden", "5", "--init-output", "0.1"), "--init-output is for an output table of its own"),
        (("--init-range", "1e300"), "--init-range"),
        (("--decay", "inf"), "--decay"),
        (("--bptt", "1" + 30 * "0"), "--bptt"),
        (("--output", "-", "--valid", "valid.txt"), "--valid keeps the best model in a file"),
        (("--log", "./model.safetensors"), "the same file"),
        (("--log", "-"), "--log needs the name of a file"),
    ):
        assert part in refused(neglm, "corpus.txt", *arguments, code=2)


def test_lower_precision_needs_a_gpu(neglm: Neglm, corpus: Path) -> None:
    """Said before the words are counted; also for a dry run."""
    for options in ((), ("--dry-run",)):
        said = refused(neglm, "corpus.txt", *SMALL, "--precision", "tf32", "--device", "cpu", *options)
        assert said == "neglm: --precision tf32 needs a GPU: use --device cuda, or --precision fp32 on the CPU"
    neglm("train-lm", "corpus.txt", *SMALL, "--precision", "fp32", "--device", "cpu")


def test_texts_that_do_not_fit_are_one_sentence(neglm: Neglm, corpus: Path) -> None:
    neglm("vocab", "corpus.txt")
    assert "there is a vocabulary already" in refused(neglm, *SMALL, "--min-count", "2", code=2)
    Path("foreign.txt").write_bytes(b"lorem ipsum dolor sit amet\n" * 50)
    Path("empty.txt").write_bytes(b"")
    assert "not in the vocabulary" in refused(neglm, "foreign.txt", *SMALL)
    assert "not in the vocabulary" in refused(neglm, *SMALL, "--valid", "foreign.txt")
    assert "batch of 5,000 rows is too large" in refused(neglm, *SMALL, "--batch", "5000")
    assert "empty" in refused(neglm, *SMALL, "--valid", "empty.txt")
    assert "standard input is empty" in refused(neglm, "-", *SMALL)
    assert "does not exist" in refused(neglm, *SMALL, "--valid", "none.txt")
    assert "expected a vocabulary" in refused(neglm, "corpus.txt", *SMALL, "--vocab", _vectors(neglm))
    Path("vocab.safetensors").unlink()
    assert "name a corpus" in refused(neglm, *SMALL)


def test_files_that_are_read_late_are_checked_before_the_corpus_is_counted_and_encoded(
    neglm: Neglm, corpus: Path
) -> None:
    vectors = _vectors(neglm)
    for options in (
        ("--valid", "none.txt"),
        ("--init-vectors", "none.safetensors"),
        ("--init-vectors", vectors),
        ("--init-vectors", "valid.txt"),
    ):
        said = neglm("train-lm", "corpus.txt", *SMALL, *options, "--cache", code=1, NEGLM_CACHE="cache").stderr.decode()
        assert not Path("cache").exists(), said
    assert "vectors of size 4, not 9: use --embedding 4" in refused(
        neglm, "none.txt", *SMALL, "--init-vectors", vectors
    )


def _vectors(neglm: Neglm) -> str:
    neglm("embed", "corpus.txt", "--size", "4", "--epochs", "1", "--no-cache", "-o", "vectors.safetensors")
    return "vectors.safetensors"
