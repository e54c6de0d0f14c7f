"""Small language models of all losses, trained by `neglm`, and their log-probabilities."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from neglm_cli.interop.network import Network
from neglm_cli.lm.model import LanguageModel
from tests.conftest import Neglm
from tests.lm.making import OWN_TABLE, SMALL_OPTIONS
from tests.sgns.making import some_text

MODELS = {
    "neglm": "--layers 2 --noise-alpha 0.75",
    "neglm, reset": "--layers 2 --reset-at-eos",
    "neglm-b": "--loss neglm-b --layers 3 --embedding 5",
    "nce": "--loss nce --layers 1 --embedding 12 --log-z 2",
    "neg": "--loss neg --layers 2",
    "softmax": "--loss softmax --layers 2",
    "softmax, reset": "--loss softmax --layers 1 --reset-at-eos",
    "tied": "--tie --layers 2",
}
TEXT = some_text(150, seed=3) + b"nowhere <unk> w1\n\nw3 <eos> w2 w1\n w2\tw1"  # the last line has no end


def train(neglm: Neglm, name: str) -> None:
    """Train model.safetensors, and write test.txt."""
    Path("corpus.txt").write_bytes(some_text(1000))
    Path("test.txt").write_bytes(TEXT)
    neglm(
        "train-lm", "corpus.txt", *SMALL_OPTIONS, *(() if "--tie" in MODELS[name] else OWN_TABLE), *MODELS[name].split()
    )


def tie(path: str) -> Network:
    """Return model.safetensors with one table for inputs and outputs, and write it as a file."""
    network = Network.of(LanguageModel.load("model.safetensors"))
    tied = replace(network, output=network.embedding)
    tied.save(path)
    return tied


def word_scores(neglm: Neglm, *options: str) -> list[tuple[str, int, float]]:
    """Return each word of test.txt and `<eos>`, its id, and its natural log-probability."""
    output = neglm("score", "model.safetensors", "test.txt", "--per-word", "--base", "e", *options).stdout.decode()
    rows = [line.split("\t") for line in output.split("\n") if line]
    return [(word, int(number), float(score)) for word, number, score, _ in rows]


def line_scores(neglm: Neglm) -> np.ndarray:
    """Return the natural log-probability of each line of test.txt, scored on its own."""
    output = neglm("score", "model.safetensors", "test.txt", "--base", "e").stdout.decode()
    return np.array([float(line.split("\t")[0]) for line in output.splitlines()])
