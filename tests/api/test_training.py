"""Training from Python: the same files as from the command line, reports, errors, and Ctrl-C."""

import inspect
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import neglm_cli
from neglm_cli import NeglmError, Report
from neglm_cli.settings import embed as embed_settings
from neglm_cli.settings import train_lm as train_lm_settings
from neglm_cli.settings.declare import declared
from tests.conftest import Neglm
from tests.sgns.making import some_text

LM: dict[str, Any] = {
    "hidden": 9, "layers": 1, "k": 3, "batch": 3, "bptt": 6, "epochs": 2, "threads": 1, "cache": False, "device": "cpu",
}  # fmt: skip
UNCACHED: dict[str, Any] = {"cache": False, "device": "cpu"}
VECTORS: dict[str, Any] = {"size": 9, "min_count": 1, "epochs": 2, "threads": 1, "deterministic": True, "cache": False}


class Reports:
    """Keeps the reports at the ends of epochs and runs; others depend on the speed of the machine."""

    def __init__(self) -> None:
        self.kept: list[Report] = []

    def __call__(self, report: Report) -> None:
        if report.event in ("epoch", "end"):
            self.kept.append(report)


def options(keywords: dict[str, Any]) -> list[str]:
    """Return the same settings as options."""
    named = {name: value for name, value in keywords.items() if name not in ("cache", "deterministic")}
    flags = ["--no-cache"] + ["--deterministic"] * keywords.get("deterministic", False)
    return [part for name, value in named.items() for part in (f"--{name.replace('_', '-')}", str(value))] + flags


@pytest.fixture
def corpus(workplace: Path) -> Path:
    path = workplace / "corpus.txt"
    path.write_bytes(some_text(2000))
    Path("valid.txt").write_bytes(some_text(300, seed=2))
    return path


def test_files_are_those_of_the_commands(neglm: Neglm, corpus: Path) -> None:
    words = neglm_cli.vocab(corpus, "py.vocab", min_count=2)
    neglm("vocab", "corpus.txt", "--min-count", "2", "-o", "cli.vocab")
    vectors = neglm_cli.embed("corpus.txt", "py.vectors", **VECTORS)
    neglm("embed", "corpus.txt", *options(VECTORS), "-o", "cli.vectors")
    model = neglm_cli.train_lm(["corpus.txt"], "py.model", valid="valid.txt", **LM)
    neglm("train-lm", "corpus.txt", *options(LM), "--valid", "valid.txt", "-o", "cli.model")
    for name in ("vocab", "vectors", "model"):
        assert Path(f"py.{name}").read_bytes() == Path(f"cli.{name}").read_bytes()
    assert (words.path, vectors.path, model.path) == ("py.vocab", "py.vectors", "py.model")
    assert sorted(os.listdir()) == sorted(
        ["corpus.txt", "valid.txt"] + [f"{by}.{name}" for by in ("py", "cli") for name in ("vocab", "vectors", "model")]
    )


def test_what_was_loaded_stands_for_its_file(corpus: Path) -> None:
    words = neglm_cli.vocab(corpus, "words")
    vectors = neglm_cli.embed(vocab=words, **VECTORS)
    assert set(vectors) <= set(words)
    model = neglm_cli.train_lm(vocab=words, init_vectors=vectors, **LM | {"lr": 1e-12, "epochs": 1})
    assert model.similarity("w1", "w2") == pytest.approx(vectors.similarity("w1", "w2"), abs=1e-5)


def test_a_table_of_pairs(workplace: Path) -> None:
    Path("pairs.tsv").write_text("x1\ty1\t3\nx1\ty2\t1\nx2\ty1\t1\nx2\ty2\t5\n")
    reports = Reports()
    sampled = neglm_cli.embed(pairs="pairs.tsv", size=2, epochs=3, progress=reports)
    assert {report.unit for report in reports.kept} == {"pairs"}
    full = neglm_cli.embed(pairs="pairs.tsv", size=2, full_batch=True)
    assert sorted(sampled) == sorted(full) == ["x1", "x2"]


def test_reports_of_a_language_model(corpus: Path) -> None:
    kept = Reports()
    model = neglm_cli.train_lm(corpus, valid="valid.txt", progress=kept, **LM)
    reports = kept.kept
    assert [(report.event, report.epoch) for report in reports] == [("epoch", 1), ("epoch", 2), ("end", 2)]
    assert reports[-1].done == reports[-1].total == 2 * reports[0].done
    for report in reports[:-1]:
        assert report.unit == "words"
        assert report.loss is not None
        assert report.loss > 0
        assert report.valid_perplexity is not None
    best = [report for report in reports if report.best]
    assert best[-1].valid_perplexity == pytest.approx(model.perplexity("valid.txt"), rel=1e-6)
    assert reports[0].step == (reports[-1].step or 0) // 2 > 0


def test_reports_of_vectors(corpus: Path) -> None:
    kept = Reports()
    neglm_cli.embed(corpus, progress=kept, **VECTORS | {"epochs": 3})
    reports = kept.kept
    assert [(report.event, report.epoch) for report in reports] == [
        ("epoch", 1), ("epoch", 2), ("epoch", 3), ("end", 3),
    ]  # fmt: skip
    assert [report.done for report in reports] == [reports[0].done * times for times in (1, 2, 3, 3)]
    losses = [report.loss for report in reports[:3]]
    assert losses == sorted(losses, key=lambda loss: -(loss or 0))
    rates = [report.learning_rate or 0 for report in reports]
    assert rates[0] > rates[1] > rates[2] > 0


@pytest.mark.parametrize(
    ("keywords", "sentence"),
    [
        ({"hiden": 9}, "there is no keyword hiden; did you mean hidden?"),
        ({"init": 0.1}, "init is now init_range"),
        ({"vald": "valid.txt"}, "there is no keyword vald; did you mean valid?"),
        ({"hidden": 0}, "hidden must be at least 1"),
        ({"hidden": 9.0}, "hidden needs a whole number, not '9.0'"),
        ({"hidden": True}, "hidden needs a whole number, not 'True'"),
        ({"lr": "fast"}, "lr needs a number, not 'fast'"),
        ({"lr": float("nan")}, "lr nan must be a finite number above 0"),
        ({"dropout": 1}, "dropout must be at most 0.99"),
        ({"noise_alpha": float("inf")}, "noise_alpha must be a finite number"),
        ({"loss": "hinge"}, "unknown loss 'hinge'; choose neglm, neglm-b, nce, neg or softmax"),
        ({"reset_at_eos": 1}, "reset_at_eos must be True or False, not '1'"),
        ({"preset": "2b"}, "unknown preset '2b'; choose one of ptb, modern, large, 1b"),
        ({"min_count": 0}, "min_count must be at least 1"),
        ({"checkpoint": -1}, "checkpoint must be at least 0"),
        ({"output": "-"}, "output must be the name of a file, not '-'"),
        ({"patience": 2}, "patience needs a text to validate on: give one with valid."),
        ({"output": "corpus.txt"}, "the output corpus.txt is one of the inputs: name another output."),
        (
            {"device": "t"},
            "device t is none of auto, cpu, cuda, cuda:1 for the second GPU, cuda:0,1 for two, cuda:all.",
        ),
        ({"device": "cuda:1,1"}, "device cuda:1,1 has GPU 1 more than once: name each GPU once."),
        ({"resume": True}, "nothing to resume: model.safetensors.partial does not exist; start without resume"),
        ({"vocab": "none"}, "none does not exist"),
    ],
)
def test_errors_are_one_sentence_and_name_keywords(corpus: Path, keywords: dict[str, Any], sentence: str) -> None:
    with pytest.raises(NeglmError) as raised:
        neglm_cli.train_lm("corpus.txt", **UNCACHED | keywords)
    assert str(raised.value) == sentence
    assert sorted(os.listdir()) == ["corpus.txt", "valid.txt"]
    assert corpus.read_bytes() == some_text(2000)


def test_former_keywords_name_their_successors(corpus: Path) -> None:
    with pytest.raises(NeglmError, match="^exact is now full_batch$"):
        neglm_cli.embed(pairs="pairs.tsv", exact=True)
    with pytest.raises(NeglmError, match="^max_size is now max_vocab$"):
        neglm_cli.vocab(corpus, max_size=9)


def test_values_of_numpy_are_numbers(corpus: Path) -> None:
    import numpy as np

    model = neglm_cli.train_lm(corpus, **LM | {"hidden": np.int64(5), "lr": np.float32(0.5)})
    assert model.settings["hidden"] == 5


def test_signatures_list_all_settings() -> None:
    for function, settings in (
        (neglm_cli.embed, embed_settings.Settings), (neglm_cli.train_lm, train_lm_settings.Settings),
    ):  # fmt: skip
        parameters = inspect.signature(function).parameters
        assert set(declared(settings)) <= set(parameters)
        for name, setting in declared(settings).items():
            assert f"    {name}: {setting.help}" in (function.__doc__ or "")


class Interruption:
    """Interrupts a training in its n-th epoch, as Ctrl-C does."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch

    def __call__(self, report: Report) -> None:
        if report.event == "epoch" and report.epoch == self._epoch:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("kind", ["embed", "train_lm"])
def test_an_interrupt_writes_the_state_and_propagates(corpus: Path, kind: str) -> None:
    """SIGINT at the end of an epoch; the run is long enough not to end before the main thread has noticed."""
    train, keywords = (
        (neglm_cli.embed, VECTORS | {"epochs": 1000}) if kind == "embed" else (neglm_cli.train_lm, LM | {"epochs": 60})
    )
    handler = signal.getsignal(signal.SIGINT)
    assert handler is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        train(corpus, "out", progress=Interruption(2), **keywords)
    assert signal.getsignal(signal.SIGINT) is handler
    assert sorted(os.listdir()) == ["corpus.txt", "out.partial", "valid.txt"]
    kept = Reports()
    resumed = train(output="out", resume=True, cache=False, progress=kept)
    reports = kept.kept
    assert (reports[0].epoch or 0) >= 3
    assert reports[-1].epoch == keywords["epochs"]
    assert not Path("out.partial").exists()
    train(corpus, "whole", **keywords)
    assert Path("out").read_bytes() == Path("whole").read_bytes()
    assert resumed.path == "out"


class StopError(Exception):
    pass


def test_a_callback_that_raises_stops_the_run_with_its_state(corpus: Path) -> None:
    calls: list[Report] = []

    def stop(report: Report) -> None:
        if report.event == "epoch":
            calls.append(report)
            raise StopError

    with pytest.raises(StopError):
        neglm_cli.train_lm(corpus, "out", progress=stop, **LM | {"epochs": 300})
    assert len(calls) == 1
    unfinished = neglm_cli.load("out.partial")
    assert isinstance(unfinished, neglm_cli.LanguageModel)
    assert not unfinished.finished
    assert repr(unfinished).endswith("unfinished>")
    assert not Path("out").exists()


def test_signals_are_left_alone_on_other_threads(corpus: Path) -> None:
    handlers: set[Any] = set()
    trained: list[neglm_cli.WordVectors] = []

    def note(report: Report) -> None:
        handlers.add(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=lambda: trained.append(neglm_cli.embed(corpus, progress=note, **VECTORS)))
    thread.start()
    thread.join()
    assert trained
    assert handlers == {signal.getsignal(signal.SIGINT)}


def test_a_run_says_nothing_unless_asked(corpus: Path, capfd: pytest.CaptureFixture[str]) -> None:
    neglm_cli.vocab(corpus)
    neglm_cli.embed(corpus, **VECTORS)
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


def test_a_finished_run_still_raises_the_interrupt(corpus: Path) -> None:
    """Ctrl-C during the last report: the result is written, and the program stops all the same."""

    def interrupt(report: Report) -> None:
        if report.event == "end":
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        neglm_cli.embed(corpus, "out", progress=interrupt, **VECTORS)
    assert len(neglm_cli.load("out")) > 0
