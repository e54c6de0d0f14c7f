"""A language model as other tools see it: an embedding, an LSTM, and a linear layer whose softmax gives probabilities.

The bias of the linear layer is the learned bias plus the loss's correction at test time, so that models of all losses
have the same form.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from neglm_cli.lm.model import MODEL, LanguageModel
from neglm_cli.objective.losses import logit_offsets
from neglm_cli.objective.noise import probabilities
from neglm_cli.store import container
from neglm_cli.text.tokens import END_OF_LINE
from neglm_cli.text.word_index import WordIndex


class Layer(NamedTuple):
    """An LSTM layer; columns of its weights are the gates i, f, g, o."""

    w_ih: np.ndarray  # (I, 4H)
    w_hh: np.ndarray  # (H, 4H)
    bias: np.ndarray  # (4H,)


@dataclass(frozen=True, eq=False)
class Network:
    """The parameters of a language model at test time, all float32."""

    words: WordIndex
    embedding: np.ndarray  # (V, D)
    layers: list[Layer]
    output: np.ndarray  # (V, H); the same array as `embedding` if they are tied
    output_bias: np.ndarray  # (V,)
    reset_at_eos: bool

    @classmethod
    def of(cls, model: LanguageModel) -> "Network":
        embedding, output = tables(model)
        layers = [
            Layer(*(model.tensors[f"lstm.{number}.{name}"] for name in Layer._fields))
            for number in range(model.settings.layers)
        ]
        bias = (model.tensors["output_bias"] + _offsets(model)).astype(np.float32)
        return cls(model.words, embedding, layers, output, bias, model.settings.reset_at_eos)

    @property
    def hidden(self) -> int:
        """H."""
        return self.output.shape[1]

    @property
    def tied(self) -> bool:
        return self.output is self.embedding

    @property
    def end_of_line(self) -> int:
        return self.words.id(END_OF_LINE)

    def summary(self, output: str, format: str) -> dict[str, object]:
        """Describe the model, for the summary of a command that wrote it."""
        size = {"vocabulary": len(self.words), "layers": len(self.layers), "hidden": self.hidden}
        return {"output": output, "format": format, **size}

    def save(self, path: str) -> None:
        """Write a language model with the softmax loss, whose logits need no correction."""
        fields = {
            "arguments": {}, "corpus": [], "validation": [], "progress": {}, "loss": "softmax", "k": 0,
            "noise_alpha": 1.0, "log_z": 0.0, "layers": len(self.layers), "tie": self.tied,
            "reset_at_eos": self.reset_at_eos,
        }  # fmt: skip
        words = {"words": self.words.words, "offsets": self.words.offsets, "counts": self.words.counts}
        tables = {"output": self.output, "output_bias": self.output_bias}
        if not self.tied:
            tables["embedding"] = self.embedding
        layers = {
            f"lstm.{number}.{name}": array
            for number, layer in enumerate(self.layers)
            for name, array in layer._asdict().items()
        }
        container.write(path, MODEL, fields, words | tables | layers)


def tables(model: LanguageModel) -> tuple[np.ndarray, np.ndarray]:
    """Return the embedding and the output table of a model. A tied model has one table for both."""
    output = model.tensors["output"]
    return model.tensors.get("embedding", output), output


def _offsets(model: LanguageModel) -> np.ndarray:
    settings = model.settings
    noise = probabilities(model.words.counts, settings.noise_alpha)
    return logit_offsets(settings.loss, noise, settings.k, settings.log_z)
