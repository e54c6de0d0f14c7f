"""Write the files of this directory, with a neglm that writes format version 1.

    PYTHONPATH=TREE python tests/store/version1/make.py DIRECTORY

TREE is a checkout of commit 80120e2. DIRECTORY gets a text, a file of each kind, and expected results: the resumed
models and vectors, and in expected.json the scores of the text by each model.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

LM = "--hidden 4 --embedding 5 --k 3 --batch 3 --bptt 6 --init 0.5 --init-output 0.5 --no-cache --threads 1"
EMBED = "--size 4 --window 2 --min-count 1 --deterministic --threads 1"
MODELS = {
    "neglm": "--layers 2 --valid text.txt --reset-at-eos",
    "neglm-b": "--loss neglm-b --layers 1 --noise-alpha 0.5",
    "nce": "--loss nce --layers 1",
    "neg": "--loss neg --layers 1",
    "softmax": "--loss softmax --layers 1",
}
CHECKPOINTS = {
    "sgd": "--layers 1 --lr 0.1",
    "adagrad": "--loss nce --layers 2 --optimizer adagrad --lr 0.05",
    "adam": "--loss softmax --layers 1 --optimizer adam --lr 0.01",
    "adam-exact": "--layers 1 --optimizer adam --adam exact --lr 0.01 --valid text.txt",
}
MORE_EPOCHS = 2  # after a checkpoint
NEGLM = [sys.executable, "-m", "neglm_cli"]


def neglm(*arguments: str) -> str:
    return subprocess.run([*NEGLM, *arguments], check=True, capture_output=True, text=True).stdout


def interrupt(*arguments: str) -> None:
    """Run a training until its first checkpoint, then terminate it: it writes another one."""
    partial = Path(arguments[-1] + ".partial")
    with subprocess.Popen([*NEGLM, *arguments], stderr=subprocess.DEVNULL) as process:
        while not partial.exists():
            time.sleep(0.0005)
        process.send_signal(signal.SIGTERM)


def epochs_of(path: str) -> int:
    return int(json.loads(neglm("info", path, "--json"))["progress"]["epoch"])


def make_files(directory: str, limit: str, lm: str) -> dict[str, list[str]]:
    """Write a text, a vocabulary, vectors, an encoded copy and a model of each loss; return the scores by each model.

    limit: the option of `vocab` for the number of words; lm: options of `train-lm`.
    """
    os.makedirs(directory, exist_ok=True)
    os.chdir(directory)
    lines = (" ".join(f"w{(line * line + word * (line % 5)) % 13}" for word in range(line % 7)) for line in range(150))
    Path("text.txt").write_text("".join(line + "\n" for line in lines))
    neglm("vocab", "text.txt", limit, "10", "-o", "vocabulary.safetensors")
    os.environ["NEGLM_CACHE"] = "cache"
    neglm("embed", "text.txt", *EMBED.split(), "--epochs", "2", "-o", "vectors.safetensors")
    (copy,) = Path("cache").iterdir()
    copy.rename("encoded.safetensors")
    Path("cache").rmdir()
    scores = {}
    for name, options in MODELS.items():
        neglm("train-lm", "text.txt", *lm.split(), *options.split(), "--epochs", "2", "-o", f"{name}.safetensors")
        scores[name] = neglm("score", f"{name}.safetensors", "text.txt", "--base", "e").split()
    return scores


def main(directory: str) -> None:
    scores = make_files(directory, "--max-size", LM)
    resumed = {}
    for name, options in CHECKPOINTS.items():
        interrupt("train-lm", "text.txt", *LM.split(), *options.split(), "--epochs", "1000000", "-o", name)
        shutil.copy(f"{name}.partial", f"{name}.checkpoint")
        resumed[name] = epochs_of(f"{name}.partial") + MORE_EPOCHS
        neglm("train-lm", "--resume", "--epochs", str(resumed[name]), "--no-cache", "-o", name)
        assert epochs_of(name) == resumed[name], "the last epoch is not the best"
        Path(name).rename(f"{name}.resumed")
        Path(f"{name}.checkpoint").rename(f"{name}.partial")
    interrupt("embed", "text.txt", *EMBED.split(), "--no-cache", "--epochs", "2000", "--checkpoint", "0", "-o", "embed")
    shutil.copy("embed.partial", "embed.checkpoint")
    neglm("embed", "--resume", "--no-cache", "-o", "embed")
    Path("embed").rename("embed.resumed")
    Path("embed.checkpoint").rename("embed.partial")
    Path("expected.json").write_text(json.dumps({"scores": scores, "epochs": resumed}, indent=0) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
