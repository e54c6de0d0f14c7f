"""Every command in README.md, on some other pages and in the examples of subcommands works, on small files of the same
names."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from neglm_cli.cli.app import SUBCOMMANDS
from tests.conftest import users_environment
from tests.cores import keep_to_one_core
from tests.cut_short import cut_short
from tests.warm import SECONDS, Warm

ROOT = Path(__file__).parent.parent
PAGES = (
    "README.md",
    "examples/commands/README.md",
    "examples/cluster/README.md",
    "examples/map/README.md",
    "examples/surprisal/README.md",
    "examples/filter/README.md",
    "benchmarks/gpu/README.md",
)

# Commands that are not run here, and why.
NOT_STARTED = {
    "make demo": "minutes; a person looks at it",
    "make test": "it would start this test",
    "pip install .": "changes the environment",
    "examples/cluster/run 2": "the script of a recipe: a minute",
    "examples/cluster/run 4 big train.txt test.txt": "the script of a recipe: a minute",
    "sbatch examples/cluster/job.slurm train.txt valid.txt": "needs Slurm",
    "neglm train-lm --device cuda": "needs a GPU",
    "neglm train-lm --device cuda:all": "needs GPUs",
    "neglm doctor --device cuda:1": "needs two GPUs",
    "neglm pmi --sampled --samples 50000000 --json": "draws for half a minute; tests of pmi draw less",
    "neglm doctor": "measures for a minute; --quick, which does the rest, is started",
}

# Commands that resume a training, and its command.
RESUMED = {"neglm embed --resume": "embed --epochs 9 --size 100", "neglm train-lm --resume": "train-lm --epochs 9"}
TOOLS = ("zstdcat",)  # used in these commands, and not on every machine
PACKAGES = {"--onnx": "onnxruntime", "tsne": "sklearn"}  # needed by options, and not on every machine

LINES = """\
the king and the queen of greece live in athens
the man saw a woman in new york on monday
baghdad is far from athens and from new york
the stock market rose and the market fell again
a king is a man and a queen is a woman
"""
SCORES = "king\tqueen\t8.5\nman\twoman\t8.3\nathens\tmarket\t1.2\nnew\tyork\t7.1\nking\tstock\t0.5\n"
QUESTIONS = ": capitals\nathens greece baghdad athens\n: family\nman woman king queen\nking queen man woman\n"
PAIRS = "king\tqueen\t7\nking\tgreece\t2\nman\twoman\t9\nnew\tyork\t4\nstock\tmarket\t6\n"
TYPED = b"man king woman\n"  # input of commands that read from the terminal

CORPUS = (LINES + "a king raises a new market\n") * 5  # with the words of README's start
TEXTS = {"corpus.txt": CORPUS, "train.txt": LINES * 5, "news.txt": LINES * 50, "other.txt": LINES}
TEXTS |= dict.fromkeys(("valid.txt", "test.txt", "ptb.valid.txt", "ptb.test.txt", "a.txt", "b.txt"), LINES)
TEXTS |= dict.fromkeys(("sentences.txt", "lines.txt", "raw.txt", "web.txt"), LINES)
TEXTS |= dict.fromkeys(("ws353.tsv", "simlex999.tsv", "sets/one.tsv", "sets/two.tsv"), SCORES)
TEXTS |= {"questions-words.txt": QUESTIONS, "questions.txt": "man king woman\nathens greece baghdad\n"}
TEXTS |= {"clicks.tsv": PAIRS, "small.tsv": PAIRS, "words.tsv": "the\t12\nking\t3\n"}
BLIMP = '{"sentence_good": "The king rose.", "sentence_bad": "The rose king.", "UID": "order"}\n'
TEXTS |= {"blimp/order.jsonl": BLIMP, "pairs.tsv": "the king rose\trose king the\n"}
TEXTS |= {
    "stimuli.txt": LINES,
    "regions.txt": "the king\trose\tin athens\n",
    "docs.jsonl": '{"text": "the king"}\n' * 9,
}
DOCUMENTATION = "examples/demo/python_docs.py"
TEXTS |= {DOCUMENTATION: (ROOT / DOCUMENTATION).read_text(encoding="utf-8"), "wiki100.txt": LINES * 5}
TEXTS |= {"nbest.txt": "1\t-2.5\tthe king rose\n1\t-2.0\ta stock king\n2\t-1.0\tnew york\n"}
SMALL = "--hidden 8 --k 5 --epochs 2 --threads 1 --quiet"
MADE = (
    "gzip < news.txt > news.1.gz; gzip < other.txt > news.2.gz",
    "neglm phrases corpus.txt -o corpus.zst --quiet",
    "cp corpus.zst c.zst",
    "neglm vocab corpus.txt --quiet",
    "neglm vocab a.txt -o monday.safetensors --quiet",
    "neglm vocab b.txt -o tuesday.safetensors --quiet",
    "neglm embed --epochs 1 --quiet",  # of the size that README's `neglm embed` has: what is read with it must fit
    "cp vectors.safetensors wiki.safetensors",
    "neglm embed --epochs 1 --subwords 3-6 --floret --buckets 50 -o floret.safetensors --quiet",
    "neglm export floret.safetensors -o vectors.floret --quiet",
    f"neglm train-lm {SMALL} --valid valid.txt --log train.log",
    "cp model.safetensors news.safetensors; cp model.safetensors other.safetensors; gzip -k docs.jsonl",
    "mkdir a b; for log in neglm.log nce.log a/log b/log; do cp train.log $log; done",
    "neglm export -o GoogleNews-vectors-negative300.bin.gz --quiet",
    "neglm export --format text -o cc.de.300.vec.gz --quiet",
    "neglm export --format fasttext -o cc.de.300.bin --quiet",
    "gunzip < cc.de.300.vec.gz > words.vec; cp words.vec contexts.vec; tail -n +2 words.vec > glove.6B.300d.txt",
    "neglm export --pytorch lm --quiet",
    "cut -d ' ' -f 1 glove.6B.300d.txt > words.txt",
)  # fmt: skip


def indented_blocks(markdown: str) -> list[list[str]]:
    """Return the blocks that are indented by four spaces."""
    found: list[list[str]] = []
    inside = False
    for line in markdown.splitlines():
        if line.startswith("    "):
            if not inside:
                found.append([])
            found[-1].append(line[4:])
        inside = line.startswith("    ")
    return found


def commands_of(page: str) -> list[str]:
    """Return the lines of blocks, except of drawings, of Python, and of sessions with `$` and output."""
    found = []
    for block in indented_blocks((ROOT / page).read_text(encoding="utf-8")):
        if any("──" in line for line in block) or block[0].startswith("import "):
            continue
        session = any(line.startswith("$ ") for line in block)
        lines = [line.removeprefix("$ ") for line in block if line.startswith("$ ") or not session]
        found += [re.sub(r"\s+# .*", "", line) for line in lines]
    return found


def documented() -> list[str]:
    """Return each command once. Commands joined by `&&` are separate: the second finds the output of the first here."""
    examples = [example.command for page in SUBCOMMANDS for example in page.examples]
    pages = [command for page in PAGES for command in commands_of(page)]
    return list(dict.fromkeys(part for line in [*pages, *examples] for part in line.split(" && ")))


def environment(directory: Path) -> dict[str, str]:
    """Return the user's environment, with `neglm` on the PATH and a separate cache."""
    users = users_environment()
    path = os.pathsep.join([str(Path(sys.executable).parent), users["PATH"]])
    return users | {"PATH": path, "NEGLM_CACHE": str(directory)}


class Shell:
    """Runs commands on one core: `neglm` with plain arguments directly, others in bash."""

    def __init__(self, directory: Path) -> None:
        self._warm = Warm(environment(directory), keep_to_one_core)

    def run(self, command: str, directory: Path) -> tuple[int, str]:
        """Run a command. Return its exit code and output."""
        if command.startswith("neglm ") and not set(command) & set("|&;<>*"):
            done = self._warm.run(shlex.split(command)[1:], directory, TYPED)
        else:
            done = subprocess.run(
                ["bash", "-e", "-o", "pipefail", "-c", command], input=TYPED, capture_output=True, cwd=directory,
                env=environment(directory), timeout=SECONDS, preexec_fn=keep_to_one_core,
            )  # fmt: skip
        return done.returncode, done.stderr.decode()

    def close(self) -> None:
        self._warm.close()


def kill(command: str, directory: Path) -> None:
    """Start a training, and kill it after a checkpoint."""
    killed = subprocess.run(
        cut_short(signal.SIGKILL, "neglm_cli.runs.loop:RunningLoss.add", "3", *command.split(), "--checkpoint", "0"),
        cwd=directory, env=environment(directory), capture_output=True,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL, killed.stderr


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    started = Shell(tmp_path_factory.mktemp("cache"))
    yield started
    started.close()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, shell: Shell) -> Path:
    """Create a directory with all inputs of the commands."""
    directory = tmp_path_factory.mktemp("documented")
    for name, text in TEXTS.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for command in MADE:
        code, errors = shell.run(command, directory)
        assert code == 0, f"{command}\n{errors}"
    words = (directory / "words.txt").read_text(encoding="utf-8").splitlines()
    np.save(directory / "matrix.npy", np.arange(len(words) * 4, dtype=np.float32).reshape(-1, 4) + 1)
    return directory


@pytest.fixture
def directory(prepared: Path, tmp_path: Path) -> Path:
    """Copy the prepared directory, for one command to write to."""
    return Path(shutil.copytree(prepared, tmp_path / "work"))


@pytest.mark.parametrize("command", [command for command in documented() if command not in NOT_STARTED])
def test_command(command: str, directory: Path, shell: Shell) -> None:
    missing = [tool for tool in TOOLS if tool in command.split() and shutil.which(tool) is None]
    if missing:
        pytest.skip(f"{missing[0]} is not installed")
    for option, package in PACKAGES.items():
        if option in command.split():
            pytest.importorskip(package)
    if command in RESUMED:
        kill(RESUMED[command], directory)
    code, errors = shell.run(command, directory)
    assert code == 0, errors
    assert "Traceback" not in errors


@pytest.mark.parametrize("page", ["README.md", "examples/commands/README.md"])
def test_python_code(page: str, directory: Path) -> None:
    blocks = indented_blocks((ROOT / page).read_text(encoding="utf-8"))
    programs = ["\n".join(block) for block in blocks if block[0].startswith("import ")]
    assert programs
    for program in programs:
        subprocess.run([sys.executable, "-c", program], cwd=directory, check=True)


def test_skipped_commands_are_documented() -> None:
    assert set(NOT_STARTED) | set(RESUMED) <= set(documented())
