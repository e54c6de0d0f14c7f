"""An LSTM language model exported by neglm. To compute the perplexity of a text: python language_model.py TEXT"""

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors.torch import load_model
from torch import Tensor, nn


class LanguageModel(nn.Module):
    """Maps words (B, T) to logits (B, T, V). Their softmax is the distribution of the next word."""

    def __init__(self, vocabulary: int, embedding: int, hidden: int, layers: int, tied: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.lstm = nn.LSTM(embedding, hidden, layers, batch_first=True)
        self.output = nn.Linear(hidden, vocabulary)
        self.output.weight = self.embedding.weight if tied else self.output.weight

    def forward(self, words: Tensor, state: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple]:
        h, state = self.lstm(self.embedding(words), state)
        return self.output(h), state


folder = Path(__file__).parent
config = json.loads((folder / "config.json").read_text())
lines = (folder / "vocab.txt").read_bytes().split(b"\n")[:-1]  # word TAB count
ids = {line.split(b"\t")[0]: number for number, line in enumerate(lines)}
EOS, UNK = ids[b"<eos>"], ids[b"<unk>"]
model = LanguageModel(len(ids), *(config[name] for name in ("embedding", "hidden", "layers", "tied")))
load_model(model.eval(), folder / "model.safetensors")


def read(text: bytes) -> Iterator[list[int]]:
    """Yield lines of words, each with `<eos>` at its end."""
    line: list[int] = []
    for word in [*text.removesuffix(b"\n").replace(b"\n", b" <eos> ").split(), b"<eos>"]:
        line.append(ids.get(word, UNK))
        if line[-1] == EOS:
            yield line
            line = []


@torch.no_grad()
def perplexity(text: bytes) -> float:
    loss, words, state = 0.0, 0, None  # a text starts after an end of line, in a zero state
    for line in read(text):
        state = None if config["reset_at_eos"] else state
        logits, state = model(torch.tensor([[EOS, *line[:-1]]]), state)
        loss += float(nn.functional.cross_entropy(logits[0], torch.tensor(line), reduction="sum"))
        words += len(line)
    return math.exp(loss / words)


if __name__ == "__main__":
    print(f"{perplexity(Path(sys.argv[1]).read_bytes()):.6f}")
