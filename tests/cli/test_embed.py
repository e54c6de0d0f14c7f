"""`neglm embed` on the command line."""

import gzip
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neglm_cli.errors import NeglmError
from neglm_cli.lm.model import LanguageModel
from neglm_cli.store.locking import exclusive
from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors.vectors import Vectors
from tests.conftest import Neglm, late_signal, one_sentence, users_environment
from tests.cut_short import cut_short
from tests.sgns.making import job_of, some_text

SMALL = ("--size", "10", "--min-count", "1", "--epochs", "2", "--no-cache")
NOTES = (
    "compiling kernels", "counting words", "training", "using the vocabulary", "reading pairs", "checkpoint written",
    "leaving out",
    "this training will replace",
)  # fmt: skip


def sentence(stderr: bytes) -> str:
    """Return the error message: the only line that is not a note."""
    lines = [line for line in stderr.split(b"\n") if not line.decode().startswith(NOTES)]
    return one_sentence(b"\n".join(lines))


@pytest.fixture
def corpus(workplace: Path) -> Path:
    path = workplace / "corpus.txt"
    path.write_bytes(some_text(5000))
    return path


def summary(neglm: Neglm, *arguments: str, **options: Any) -> dict[str, Any]:
    result = json.loads(neglm("embed", *arguments, "--json", **options).stdout)
    assert isinstance(result, dict)
    return result


def test_the_two_lines(neglm: Neglm, corpus: Path) -> None:
    """Vectors from a vocabulary, without naming the corpus again; a note names it."""
    neglm("vocab", "corpus.txt")
    result = neglm("embed", "--size", "10", NEGLM_CACHE="cache")
    assert b"training on corpus.txt, the corpus of the vocabulary" in result.stderr
    assert result.stdout.startswith(b"vectors.safetensors: ")
    vectors = Vectors.load("vectors.safetensors")
    assert vectors.vectors.shape == vectors.context_vectors.shape == (len(vectors.words), 10)
    assert (vectors.words.counts >= 5).all()
    assert list(vectors.words) == list(vectors.contexts)
    assert not {b"<unk>", b"<eos>"} & set(vectors.words)
    assert np.isfinite(vectors.vectors).all()
    assert abs(vectors.context_vectors).max() > 0.01
    assert (vectors.objective, vectors.k, vectors.noise_alpha) == ("pmi", 5, 0.75)
    assert vectors.arguments == {
        "size": 10, "window": 5, "k": 5, "sample": 1e-3, "noise_alpha": 0.75, "min_count": 5, "epochs": 5, "lr": 0.025,
        "objective": "pmi", "full_batch": False, "seed": 1, "threads": len(os.sched_getaffinity(0)),
        "deterministic": False, "pairs": False, "cbow": False, "floret": False,
    }  # fmt: skip
    assert vectors.progress["done"] == vectors.progress["total"] == 5 * (5000 + corpus.read_bytes().count(b"\n"))
    assert vectors.files[0]["path"] == "corpus.txt"
    assert len(list(Path("cache").iterdir())) == 1
    assert sorted(os.listdir()) == ["cache", "corpus.txt", "vectors.safetensors", "vocab.safetensors"]


def test_word2vec_names_and_no_vocabulary(neglm: Neglm, corpus: Path) -> None:
    found = summary(neglm, "corpus.txt", *SMALL, "--iter", "3", "--negative", "7", "--window", "2", "--sample", "0")
    assert found["epochs"] == 3
    arguments = Vectors.load("vectors.safetensors").arguments
    assert (arguments["epochs"], arguments["k"], arguments["window"], arguments["sample"]) == (3, 7, 2, 0)


def test_compressed_and_piped_text_give_the_same(neglm: Neglm, corpus: Path) -> None:
    same = (*SMALL, "--threads", "1", "-o")
    neglm("embed", "corpus.txt", *same, "plain")
    Path("corpus.gz").write_bytes(gzip.compress(corpus.read_bytes()))
    neglm("embed", "corpus.gz", *same, "compressed")
    neglm("embed", "-", *same, "piped", stdin=corpus.read_bytes())
    neglm("embed", "corpus.txt", *same[:-1], "--cache", "-o", "cached", NEGLM_CACHE="cache")
    plain = Vectors.load("plain")
    for name in ("compressed", "piped", "cached"):
        other = Vectors.load(name)
        np.testing.assert_array_equal(other.vectors, plain.vectors)
        np.testing.assert_array_equal(other.context_vectors, plain.context_vectors)
    assert Vectors.load("piped").files[0]["path"] is None


def test_deterministic(neglm: Neglm, corpus: Path) -> None:
    """Bit-identical from run to run, with two threads."""
    options = (*SMALL, "--deterministic", "--threads", "2", "-o")
    for name in ("one", "two"):
        neglm("embed", "corpus.txt", *options, name)
    assert Path("one").read_bytes() == Path("two").read_bytes()
    neglm("embed", "corpus.txt", *options, "three", "--seed", "2")
    assert (Vectors.load("one").vectors != Vectors.load("three").vectors).any()


def test_init(neglm: Neglm, corpus: Path) -> None:
    neglm("embed", "corpus.txt", *SMALL, "-o", "first")
    Path("more.txt").write_bytes(corpus.read_bytes() + b"new words here\n" * 10)
    nothing = (*SMALL, "--epochs", "1", "--lr", "1e-12", "--sample", "0")
    result = neglm("embed", "more.txt", *nothing, "--init-vectors", "first", "-o", "second")
    first, second = Vectors.load("first"), Vectors.load("second")
    assert f"{len(first.words)} of {len(first.words) + 3} words start from first".encode() in result.stderr
    for word in first.words:
        one, other = first.words.id(word), second.words.id(word)
        np.testing.assert_allclose(second.vectors[other], first.vectors[one], atol=1e-6)
        np.testing.assert_allclose(second.context_vectors[other], first.context_vectors[one], atol=1e-6)
    assert abs(second.vectors[second.words.id(b"new")]).max() <= 0.05
    neglm("embed", "corpus.txt", *SMALL, "--size", "5", "-o", "small")
    message = sentence(neglm("embed", "corpus.txt", *SMALL, "--init-vectors", "small", code=1).stderr)
    assert message == "neglm: small has vectors of size 5, not 10: use --size 5"
    assert message == sentence(
        neglm("embed", "none.txt", *SMALL, "--init-vectors", "small", code=1).stderr
    )  # checked first


def test_init_from_a_language_model(neglm: Neglm, corpus: Path) -> None:
    neglm("train-lm", "corpus.txt", "--hidden", "10", "--layers", "1", "--k", "2", "--epochs", "1", "--no-cache")
    model = LanguageModel.load("model.safetensors")
    nothing = ("--epochs", "1", "--lr", "1e-12", "--sample", "0", "--init-vectors", "model.safetensors")
    neglm("embed", "corpus.txt", *SMALL, *nothing)
    vectors = Vectors.load("vectors.safetensors")
    ids = model.words.ids(vectors.words)
    np.testing.assert_allclose(vectors.vectors, model.tensors["embedding"][ids], atol=1e-6)
    np.testing.assert_allclose(vectors.context_vectors, model.tensors["output"][ids], atol=1e-6)


SEGMENT = "neglm_cli.runs.loop:RunningLoss.add"  # a checkpoint is written after the first one


RUN = "import sys; from neglm_cli.cli.main import run; sys.exit(run(sys.argv[1:]))"


@pytest.mark.parametrize(
    ("how", "code", "first"),
    [
        (signal.SIGINT, 130, ""),
        (signal.SIGTERM, 143, ""),
        (signal.SIGKILL, -9, ""),
        (signal.SIGTERM, 143, late_signal("neglm_cli.sgns.trainer")),
    ],
    ids=["SIGINT", "SIGTERM", "SIGKILL", "SIGTERM twice"],
)
def test_resume(neglm: Neglm, workplace: Path, how: signal.Signals, code: int, first: str) -> None:
    """However it was interrupted, it resumes, and ends bit-identical to an uninterrupted run."""
    Path("corpus.txt").write_bytes(some_text(20_000))
    options = ("corpus.txt", "--size", "100", "--min-count", "1", "--epochs", "12", "--sample", "0", "--no-cache",
               "--deterministic", "--threads", "2")  # fmt: skip
    command = cut_short(how, SEGMENT, "5", "embed", *options, "--checkpoint", "0", first=first)
    cut = subprocess.run(command, capture_output=True)
    assert cut.returncode == code, cut.stderr
    assert not Path("vectors.safetensors").exists()
    if how != signal.SIGKILL:
        assert b"checkpoint written to vectors.safetensors.partial; continue with --resume" in cut.stderr
    partial = Vectors.load("vectors.safetensors.partial")
    assert 0 < partial.progress["done"] < partial.progress["total"]
    result = neglm("embed", "--resume", "--no-cache")
    note = f"resuming from vectors.safetensors.partial at epoch {{}} ({partial.progress['done']:,} of"
    epoch = partial.progress["done"] * 12 // partial.progress["total"] + 1
    assert note.format(epoch).encode() in result.stderr
    assert not Path("vectors.safetensors.partial").exists()
    neglm("embed", *options, "-o", "whole")
    assert Path("vectors.safetensors").read_bytes() == Path("whole").read_bytes()


def test_a_signal_that_comes_when_all_is_trained_lets_the_vectors_be_written(corpus: Path) -> None:
    program = (
        "import os, signal; from neglm_cli.sgns import job; write = job.write_vectors; "
        f"job.write_vectors = lambda *given: (os.kill(os.getpid(), signal.SIGTERM), write(*given)); {RUN}"
    )
    command = [sys.executable, "-c", program, "embed", "corpus.txt", *SMALL]
    result = subprocess.run(command, env=users_environment(), capture_output=True)
    assert result.returncode == 0, result.stderr
    assert np.isfinite(Vectors.load("vectors.safetensors").vectors).all()


def test_an_unfinished_training_is_not_replaced(neglm: Neglm, corpus: Path) -> None:
    state = Path("vectors.safetensors.partial")
    state.write_bytes(b"days of work")
    message = sentence(neglm("embed", "corpus.txt", *SMALL, code=2).stderr)
    assert f"{state} is an unfinished run: continue it with --resume, or delete it to start again" in message
    assert state.read_bytes() == b"days of work"
    neglm("embed", "corpus.txt", *SMALL, "-o", "others")


def test_two_processes_do_not_train_one_file(neglm: Neglm, corpus: Path) -> None:
    with exclusive("vectors.safetensors"):
        said = neglm("embed", "corpus.txt", *SMALL, code=1).stderr
        neglm("embed", "corpus.txt", *SMALL, "-o", "others")
    message = "vectors.safetensors is being made by another process: wait for its end, or name another file"
    assert sentence(said) == f"neglm: {message}"
    neglm("embed", "corpus.txt", *SMALL)


def test_nothing_to_resume(neglm: Neglm, corpus: Path) -> None:
    message = sentence(neglm("embed", "--resume", code=1).stderr)
    assert message == "neglm: nothing to resume: vectors.safetensors.partial does not exist; start without --resume"
    neglm("embed", "corpus.txt", *SMALL)
    assert "vectors.safetensors is finished" in sentence(neglm("embed", "--resume", code=1).stderr)


def test_resume_from_a_pipe(neglm: Neglm, corpus: Path) -> None:
    neglm("embed", "-", *SMALL, stdin=corpus.read_bytes())
    vectors = Vectors.load("vectors.safetensors")
    half = {"done": vectors.progress["total"] // 2, "total": vectors.progress["total"]}
    Vectors(**vectors.__dict__ | {"progress": half}).save("vectors.safetensors.partial")
    message = sentence(neglm("embed", "-", "--resume", stdin=b"another text\n", code=1).stderr)
    assert "vectors.safetensors.partial was training on another text" in message
    neglm("embed", "-", "--resume", "--cache", stdin=corpus.read_bytes(), NEGLM_CACHE="cache")
    resumed = Vectors.load("vectors.safetensors")
    assert resumed.progress == vectors.progress
    assert resumed.files == vectors.files
    assert resumed.files[0]["path"] is None
    assert not Path("cache").exists()  # a copy of a pipe would never be used again


@pytest.mark.parametrize("command", ["embed", "train-lm"])
def test_errors_name_standard_input_not_its_copy(neglm: Neglm, workplace: Path, command: str) -> None:
    damaged = gzip.compress(some_text(5000))[:-100]
    message = sentence(neglm(command, "-", "--no-cache", stdin=damaged, code=1).stderr)
    assert message.startswith("neglm: standard input ")
    assert tempfile.gettempdir() not in message


def test_resume_with_other_options_or_another_text(neglm: Neglm, corpus: Path) -> None:
    neglm("embed", "corpus.txt", *SMALL)
    vectors = Vectors.load("vectors.safetensors")
    half = {"done": vectors.progress["total"] // 2, "total": vectors.progress["total"]}
    Vectors(**vectors.__dict__ | {"progress": half}).save("vectors.safetensors.partial")
    before = Path("vectors.safetensors.partial").read_bytes()
    message = sentence(neglm("embed", "--resume", "--window", "3", code=1).stderr)
    assert "this training was started with --window 5: leave out --window" in message
    corpus.write_bytes(corpus.read_bytes() + b"more\n")
    assert "corpus.txt, the corpus of vectors.safetensors.partial, has changed" in sentence(
        neglm("embed", "--resume", code=1).stderr
    )
    message = sentence(neglm("embed", "corpus.txt", "--resume", "--no-cache", code=1).stderr)
    assert "vectors.safetensors.partial was training on another text" in message
    assert Path("vectors.safetensors.partial").read_bytes() == before


def test_pairs(neglm: Neglm, workplace: Path) -> None:
    """x and y have separate vocabularies, in files or pipes."""
    text = b"new york\tcity\t300\nparis\tcity\t200\nparis\tfrance\t100\nrome\titaly\n"
    Path("pairs.tsv").write_bytes(text)
    same = ("--size", "4", "--threads", "1", "--epochs", "20")
    found = summary(neglm, "--pairs", "pairs.tsv", *same, "-o", "file")
    assert found["pairs"] == 20 * 601
    vectors = Vectors.load("file")
    assert list(vectors.words) == [b"new york", b"paris", b"rome"]
    assert list(vectors.contexts) == [b"city", b"france", b"italy"]
    assert vectors.words.counts.tolist() == [300, 300, 1]
    assert (vectors.noise_alpha, vectors.arguments["min_count"], vectors.arguments["pairs"]) == (1.0, 1, True)
    neglm("embed", "--pairs", "-", *same, "-o", "pipe", stdin=gzip.compress(text))
    np.testing.assert_array_equal(Vectors.load("pipe").vectors, vectors.vectors)
    neglm("embed", "--pairs", "pairs.tsv", "--min-count", "100", *same, "-o", "cut")
    assert list(Vectors.load("cut").words) == [b"new york", b"paris"]


@pytest.mark.parametrize("objective", ["pmi", "cond"])
def test_exact_pairs(neglm: Neglm, workplace: Path, objective: str) -> None:
    """At full rank, scores equal the PMI, or log p(y|x); the file records which, and is reproducible."""
    table = np.array([[40, 10, 2], [5, 30, 5], [1, 2, 50]])
    lines = [f"x{i}\ty{j}\t{table[i, j]}\n" for i, j in np.ndindex(3, 3)]
    Path("pairs.tsv").write_text("".join(lines))
    options = ("--pairs", "pairs.tsv", "--full-batch", "--size", "3", "--k", "2", "--objective", objective)
    found = summary(neglm, *options)
    assert found["kl_divergence"] == pytest.approx(0, abs=1e-6)
    first = Path("vectors.safetensors").read_bytes()
    neglm("embed", *options)
    assert Path("vectors.safetensors").read_bytes() == first
    vectors = Vectors.load("vectors.safetensors")
    scores = vectors.vectors.astype(float) @ vectors.context_vectors.T
    p = table / table.sum()
    x = [int(word[1:]) for word in vectors.words]
    y = [int(word[1:]) for word in vectors.contexts]
    p_x, p_y = p.sum(1, keepdims=True), p.sum(0)
    expected = np.log(p / p_x) if objective == "cond" else np.log(p / (p_x * p_y)) - np.log(2)
    np.testing.assert_allclose(scores, expected[np.ix_(x, y)], atol=1e-3)


def test_pmi_of_a_text(neglm: Neglm, workplace: Path) -> None:
    """Trained vectors capture more of the PMI matrix of their text than their initial values do."""
    Path("corpus.txt").write_bytes(some_text(60_000, vocabulary=60))
    neglm(
        "embed",
        "corpus.txt",
        "--size",
        "20",
        "--min-count",
        "1",
        "--epochs",
        "10",
        "--lr",
        "0.05",
        "--sample",
        "0.01",
        "--no-cache",
    )
    found = json.loads(neglm("pmi", "--json", "--no-svd").stdout)
    assert found["pairs"] > 100_000
    assert 0 < found["vectors"]["kl_divergence"] < found["independence"]["kl_divergence"]
    assert found["vectors"]["kept"] > 0.5
    named = json.loads(neglm("pmi", "vectors.safetensors", "corpus.txt", "--json", "--no-svd").stdout)
    assert named["vectors"] == found["vectors"]


# --- bad input ----------------------------------------------------------------------------------------


def refused(neglm: Neglm, *arguments: str, code: int = 1) -> str:
    """Return the error message; the old output must be untouched, with no stray files."""
    Path("vectors.safetensors").write_bytes(b"old")
    before = sorted(os.listdir())
    message = sentence(neglm("embed", *arguments, code=code).stderr)
    assert Path("vectors.safetensors").read_bytes() == b"old"
    assert sorted(os.listdir()) == before
    return message


def test_alpha_has_two_meanings(neglm: Neglm, corpus: Path) -> None:
    message = refused(neglm, "corpus.txt", "--alpha", "0.05", code=2)
    assert "--lr" in message
    assert "--noise-alpha" in message


@pytest.mark.parametrize(
    "arguments",
    [
        ("--size", "0"), ("--window", "0"), ("--k", "0"), ("--lr", "0"), ("--lr", "nan"), ("--lr", "-1"),
        ("--sample", "-1"), ("--sample", "inf"), ("--noise-alpha", "-1"), ("--epochs", "0"), ("--min-count", "0"),
        ("--threads", "0"), ("--objective", "other"), ("--full-batch",), ("--pairs", "p", "--window", "3"),
        ("--pairs", "p", "--vocab", "v"), ("--resume", "--init-vectors", "f"),
    ],
)  # fmt: skip
def test_wrong_usage(neglm: Neglm, corpus: Path, arguments: tuple[str, ...]) -> None:
    named = () if "--pairs" in arguments or "--resume" in arguments else ("corpus.txt",)
    refused(neglm, *named, *arguments, code=2)


def test_a_learning_rate_that_is_too_high(neglm: Neglm, corpus: Path) -> None:
    message = refused(neglm, "corpus.txt", *SMALL, "--lr", "1e20")
    assert "the loss is NaN or infinite" in message
    assert "use a smaller --lr; nothing was written" in message


def test_no_words_left(neglm: Neglm, corpus: Path) -> None:
    assert "--min-count 100000 leaves no words: the most frequent one occurs" in refused(
        neglm, "corpus.txt", "--min-count", "100000"
    )
    Path("empty.txt").touch()
    assert "empty.txt is empty: there are no words to read" in refused(neglm, "empty.txt")


def test_nothing_to_train_on(neglm: Neglm, workplace: Path) -> None:
    assert "there is no vocab.safetensors here: name a corpus" in refused(neglm)
    assert "nothing.txt does not exist" in refused(neglm, "nothing.txt")
    assert "none.safetensors does not exist" in refused(neglm, "--vocab", "none.safetensors")


def test_the_corpus_of_the_vocabulary_has_changed(neglm: Neglm, corpus: Path) -> None:
    neglm("vocab", "corpus.txt")
    corpus.write_bytes(corpus.read_bytes().upper())
    assert "corpus.txt, the corpus of vocab.safetensors, has changed" in refused(neglm)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"no tab", "there is no tab"), (b"a\tb\t-3", "not a count"), (b"a\tb\t0", "not a count"),
        (b"a\tb\t99999999999999999999", "too large"), (b"a\t\t3", "empty"), (b"a\tb\tc\td", "more than three fields"),
    ],
)  # fmt: skip
def test_a_wrong_line_of_pairs(neglm: Neglm, workplace: Path, line: bytes, problem: str) -> None:
    Path("pairs.tsv").write_bytes(b"a\tb\t1\nc\td\n" + line + b"\nc\td\n")
    message = refused(neglm, "--pairs", "pairs.tsv")
    assert "pairs.tsv, line 3:" in message
    assert problem in message


def test_output_that_cannot_be_written(neglm: Neglm, corpus: Path) -> None:
    message = sentence(neglm("embed", "corpus.txt", *SMALL, "-o", "no/place", code=1).stderr)
    assert "cannot write no/place" in message
    assert "the output corpus.txt is one of the inputs" in refused(neglm, "corpus.txt", "-o", "corpus.txt", code=2)


def test_inputs_are_never_overwritten(neglm: Neglm, corpus: Path) -> None:
    """Inputs given, recorded or implied are safe, from the training state next to the output, too."""
    text = corpus.read_bytes()
    neglm("vocab", "corpus.txt")
    vocabulary = Path("vocab.safetensors").read_bytes()
    Path("text.partial").write_bytes(text)
    for arguments in (
        ("-o", "corpus.txt"), ("corpus.txt", "-o", "vocab.safetensors"), ("text.partial", "-o", "text"),
    ):  # fmt: skip
        message = sentence(neglm("embed", *arguments, "--no-cache", code=2).stderr)
        assert "is one of the inputs: name another" in message or "was made from: name another" in message
    assert corpus.read_bytes() == Path("text.partial").read_bytes() == text
    assert Path("vocab.safetensors").read_bytes() == vocabulary


def test_nothing_to_learn(neglm: Neglm, corpus: Path) -> None:
    neglm("vocab", "corpus.txt")
    Path("other.txt").write_bytes(b"not one of those words\n" * 100)
    assert "there is nothing to learn" in refused(neglm, "other.txt", *SMALL)


def test_a_text_that_becomes_shorter(tmp_path: Path) -> None:
    """A truncated text is an error, not an endless wait."""
    job = job_of(some_text(5000), tmp_path, epochs=2)
    trainer = job.trainer()
    trainer.total = job.total + job.source.length
    job.source.length += 100
    with pytest.raises(NeglmError, match="the text was truncated during training"):
        for _ in trainer.run():
            pass


def test_resume_of_what_is_no_state(neglm: Neglm, corpus: Path) -> None:
    neglm("embed", "corpus.txt", *SMALL)
    finished = Path("vectors.safetensors").read_bytes()
    Path("vectors.safetensors.partial").write_bytes(finished)
    message = sentence(neglm("embed", "--resume", code=1).stderr)
    assert message == (
        "neglm: vectors.safetensors.partial is not a checkpoint of `neglm embed`: start again without --resume"
    )
    os.mkfifo("fifo")
    for arguments in (
        ("--resume", "--vocab", "v"),
        ("--resume", "--full-batch"),
        ("--resume", "-o", "-"),
        ("--resume", "-o", "fifo"),
    ):
        neglm("embed", *arguments, code=2)


def test_pmi_of_vectors_with_other_contexts(neglm: Neglm, corpus: Path) -> None:
    """Contexts may come in any order; missing ones produce no pairs."""
    neglm("embed", "corpus.txt", *SMALL, "--sample", "0")
    vectors = Vectors.load("vectors.safetensors")
    whole = json.loads(neglm("pmi", "--json", "--no-svd").stdout)
    for order in (np.arange(len(vectors.words))[::-1], np.arange(50)):
        contexts = WordIndex.of([vectors.contexts[i] for i in order], vectors.contexts.counts[order])
        changed = {"contexts": contexts, "context_vectors": vectors.context_vectors[order]}
        Vectors(**vectors.__dict__ | changed).save("other.safetensors")
        found = json.loads(neglm("pmi", "other.safetensors", "--json", "--no-svd").stdout)
        if len(order) == len(vectors.words):
            assert found["pairs"] == whole["pairs"]
            assert found["vectors"]["log_likelihood"] == pytest.approx(whole["vectors"]["log_likelihood"], rel=1e-6)
        else:
            assert 0 < found["pairs"] < whole["pairs"]
    Path("one.txt").write_bytes(b"w1\n")
    message = sentence(neglm("pmi", "vectors.safetensors", "one.txt", code=1).stderr)
    assert "one.txt has no pair of a word and a context" in message
