"""`neglm doctor --compile`: compile kernels before they are needed, by running commands on a few words."""

import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from neglm_cli.cli.progress import Progress
from neglm_cli.errors import NeglmError
from neglm_cli.kernels.compilers import PYTHON, same_modules, usable_cores

MAX_COMMANDS = 4  # at a time; each may start compilers of its own
TEXT = "a few words\nof a text, and a few more words\n" * 20
PAIRS = "x\ty\t3\nx\tz\t2\ny\tz\t1\n"
TINY = ("train-lm", "--hidden", "2", "--epochs", "1", "--k", "2", "--device", "cpu", "--no-cache", "-o")

VOCABULARY = (("vocab", "text.txt"),)
TRAININGS = (
    (*TINY, "model.safetensors"),
    (*TINY, "softmax", "--loss", "softmax"),
    (*TINY, "shared", "--noise", "batch"),
    (*TINY, "average", "--average", "1", "--recurrent-dropout", "0.1", "--optimizer", "adam", "--adam", "exact"),
    ("embed", "--size", "2", "--no-cache"),
    ("embed", "--size", "2", "--no-cache", "--deterministic", "-o", "deterministic"),
    ("embed", "--size", "2", "--no-cache", "--subwords", "3-4", "-o", "subwords"),
    ("embed", "--size", "2", "--no-cache", "--subwords", "3-4", "--floret", "-o", "floret"),
    ("embed", "--size", "2", "--no-cache", "--cbow", "-o", "cbow"),
    ("embed", "--size", "2", "--no-cache", "--pairs", "pairs.tsv", "-o", "pairs"),
    ("phrases", "text.txt"),
)
USES = (
    ("eval", "--test", "text.txt"),
    ("score", "text.txt"),
    ("filter", "text.txt", "-o", "kept.txt"),
    ("generate", "--max-words", "3"),
    ("analogy", "a", "few", "words"),
    ("export", "--quantize", "-o", "quantized"),
    ("nearest", "words"),
    ("nearest", "wordy", "--vectors", "subwords"),
    ("export", "-o", "vectors.txt"),
    ("pmi",),
)
IMPORTS = (("import", "vectors.txt", "-o", "imported"), ("nearest", "words", "--vectors", "quantized"))
STAGES: tuple[tuple[tuple[str, ...], ...], ...] = (VOCABULARY, TRAININGS, USES, IMPORTS)


def compile_all() -> None:
    """Run all commands in a temporary directory, those of a stage in parallel; raise if one fails.

    Kernels that several commands of a stage need are compiled several times.
    """
    environment = same_modules() | {"CUDA_VISIBLE_DEVICES": ""}
    with (
        tempfile.TemporaryDirectory(prefix="neglm-compile-") as directory,
        Progress("compiling", sum(map(len, STAGES)), "") as progress,
        ThreadPoolExecutor(min(usable_cores(), MAX_COMMANDS)) as threads,
    ):
        (Path(directory) / "text.txt").write_text(TEXT, encoding="ascii")
        (Path(directory) / "pairs.tsv").write_text(PAIRS, encoding="ascii")

        def run(command: tuple[str, ...]) -> None:
            ended = subprocess.run(
                [*PYTHON, "-m", "neglm_cli", *command, "--quiet"], cwd=directory, env=environment,
                capture_output=True, stdin=subprocess.DEVNULL,
            )  # fmt: skip
            if ended.returncode:
                why = ended.stderr.decode(errors="replace").strip()
                raise NeglmError(f"`neglm {' '.join(command)}` failed: {why}")

        for commands in STAGES:
            for _ in threads.map(run, commands):
                progress.advance(1)
