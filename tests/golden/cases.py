"""The cases of the golden results: every loss, noise mode, optimizer, and kind of run.

A case is a list of `neglm` commands and their output file. Commands use only option names that stay accepted,
so that the same cases run on an old and on a new tree.
"""

from dataclasses import dataclass
from pathlib import Path

WORDS = 150
LINES = 700
PAIRS = 60

TINY = "--hidden 20 --layers 2 --batch 8 --bptt 7 --k 10 --epochs 2 --threads 2 --device cpu --no-cache"
VECTORS = "--size 24 --window 4 --min-count 1 --epochs 3 --sample 1e-2 --no-cache"


@dataclass(frozen=True)
class Case:
    """Commands to run in sequence, in a directory with the texts of `write_texts`.

    ranks: of the last command. interrupted: kill the last command after its first checkpoint and resume it;
    the state in that checkpoint is a result, too.
    """

    name: str
    commands: tuple[tuple[str, ...], ...]
    result: str
    ranks: int = 1
    interrupted: bool = False
    evaluated: bool = True  # record the perplexity of the test text


def write_texts(directory: Path) -> None:
    """Write a text of dependent words, a test text, and a table of pairs, the same on every machine."""
    state = 1

    def below(limit: int) -> int:
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (state >> 33) * limit >> 31

    def line() -> str:
        first, length = below(below(WORDS) + 1), 1 + below(14)
        words = [(first + step * step + below(2)) % WORDS for step in range(length)]
        return " ".join(f"w{word}" for word in words)

    for name, lines in (("train.txt", LINES), ("valid.txt", 60), ("test.txt", 60)):
        (directory / name).write_text("".join(line() + "\n" for _ in range(lines)))
    rows = [f"x{below(12)}\ty{below(below(15) + 1)}\t{1 + below(30)}\n" for _ in range(PAIRS)]
    (directory / "pairs.tsv").write_text("".join(rows))


def _lm(name: str, options: str = "", ranks: int = 1, interrupted: bool = False) -> Case:
    command = ("train-lm", "train.txt", *TINY.split(), *options.split(), "-o", "model.st")
    return Case(name, (command,), "model.st", ranks, interrupted)


def _embed(name: str, options: str, ranks: int = 1, interrupted: bool = False, text: bool = True) -> Case:
    given = (*(["train.txt"] if text else []), *(VECTORS.split() if text else []), *options.split())
    return Case(name, (("embed", *given, "-o", "vectors.st"),), "vectors.st", ranks, interrupted, evaluated=False)


CASES = (
    # losses, on two threads and on one
    *(_lm(f"lm {loss}", f"--loss {loss}") for loss in ("neglm", "neglm-b", "nce", "neg", "softmax")),
    *(_lm(f"lm {loss}, one thread", f"--loss {loss} --threads 1") for loss in ("neglm", "nce", "softmax")),
    # noise
    *(_lm(f"lm noise {noise}", f"--noise {noise}") for noise in ("step", "batch")),
    _lm("lm nce, noise step, one thread", "--loss nce --noise step --threads 1"),
    _lm("lm nce, noise batch, one thread", "--loss nce --noise batch --threads 1"),
    _lm("lm α 0.75, k 33", "--noise-alpha 0.75 --k 33"),
    # optimizers
    _lm("lm adagrad", "--optimizer adagrad"),
    _lm("lm adam lazy", "--optimizer adam --lr 0.004"),
    _lm("lm adam exact", "--optimizer adam --adam exact --lr 0.004"),
    _lm("lm adam exact, noise batch", "--optimizer adam --adam exact --lr 0.004 --noise batch"),
    _lm("lm softmax, adam exact", "--loss softmax --optimizer adam --adam exact --lr 0.004"),
    _lm("lm softmax, adagrad", "--loss softmax --optimizer adagrad"),
    # the network, its start and its schedule
    _lm("lm one layer, no dropout", "--layers 1 --dropout 0"),
    _lm("lm three layers, embedding 13", "--layers 3 --embedding 13"),
    _lm("lm reset", "--reset-at-eos"),
    _lm("lm start", "--init 0.2 --init-output 0.05 --loss neglm-b --bias-init 0.5 --log-z 1"),
    _lm("lm decay and clip", "--decay 2 --decay-from 1 --clip 0.5 --epochs 3"),
    _lm("lm seed 7", "--seed 7"),
    _lm("lm validation", "--valid valid.txt --epochs 4 --patience 1"),
    _lm("lm preset 1b", "--preset 1b --hidden 24 --max-size 100 --epochs 2"),
    Case(
        "lm from vectors",
        (
            (
                "embed",
                "train.txt",
                *VECTORS.split(),
                "--deterministic",
                "--threads",
                "1",
                "--size",
                "20",
                "-o",
                "start.st",
            ),
            ("train-lm", "train.txt", *TINY.split(), "--init-embeddings", "start.st", "-o", "model.st"),
        ),
        "model.st",
    ),
    # resumed in the middle
    _lm("lm resumed", "--epochs 6", interrupted=True),
    _lm("lm resumed, adagrad", "--epochs 6 --optimizer adagrad", interrupted=True),
    _lm("lm resumed, adam exact", "--epochs 6 --optimizer adam --adam exact --lr 0.004", interrupted=True),
    # ranks
    *(_lm(f"lm {ranks} ranks", "--threads 1", ranks) for ranks in (2, 3, 4)),
    _lm("lm 2 ranks, noise batch, adam exact", "--threads 1 --noise batch --optimizer adam --adam exact --lr 0.004", 2),
    _lm("lm 4 ranks, softmax", "--threads 1 --loss softmax", 4),
    _lm("lm 2 ranks, validation", "--threads 1 --valid valid.txt", 2),
    # vectors
    _embed("embed one thread", "--threads 1"),
    *(_embed(f"embed deterministic, {threads} threads", f"--deterministic --threads {threads}") for threads in (1, 2)),
    _embed("embed deterministic, all words", "--deterministic --threads 2 --sample 0 --window 1 --k 3 --seed 7"),
    _embed("embed resumed", "--deterministic --threads 2 --epochs 400 --checkpoint 0", interrupted=True),
    _embed("embed 2 ranks", "--deterministic --threads 1", 2),
    _embed("embed pairs", "--pairs pairs.tsv --deterministic --threads 2 --size 8 --epochs 200", text=False),
    _embed("embed pairs, cond", "--pairs pairs.tsv --deterministic --threads 1 --size 8 --objective cond", text=False),
    _embed("embed exact", "--pairs pairs.tsv --exact --threads 1 --size 8", text=False),
    _embed("embed exact, cond", "--pairs pairs.tsv --exact --objective cond --threads 1 --size 8", text=False),
)
