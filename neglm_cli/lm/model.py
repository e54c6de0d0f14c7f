"""Files of language models: the finished model, and the state of a training on its way."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from neglm_cli.lm.device import Tensors
from neglm_cli.lm.parameters import Layer, Parameters, Shape, table
from neglm_cli.settings.train_lm import Settings
from neglm_cli.store import container
from neglm_cli.text.provenance import path_from, path_relative_to
from neglm_cli.text.tokens import END_OF_LINE, UNKNOWN
from neglm_cli.text.word_index import WordIndex

MODEL, STATE = "language model", "training state"
DOCUMENTED = ("loss", "k", "noise_alpha", "log_z", "layers", "reset_at_eos")  # settings that are metadata themselves


@dataclass
class Progress:
    """How far a training is. Two trainings that did the same have the same: there is no clock in it."""

    epoch: int = 0  # epochs that lie behind
    minibatch: int = 0  # minibatches of this epoch that lie behind
    step: int = 0  # minibatches in all
    words: int = 0  # in all
    loss: float = 0.0  # nats, summed over the words of this epoch
    loss_words: int = 0
    losses: list[float] = field(default_factory=list)  # nats per word, of epochs that lie behind
    validations: list[float] = field(default_factory=list)  # perplexities after these epochs

    @property
    def best(self) -> float:
        return min(self.validations, default=float("inf"))

    @property
    def best_epoch(self) -> int:
        """From 1 on; 0 without any."""
        return self.validations.index(self.best) + 1 if self.validations else 0


@dataclass(frozen=True, eq=False)
class LanguageModel:
    words: WordIndex
    settings: Settings
    files: list[dict[str, Any]]  # the corpus; paths from the current directory
    validation: list[dict[str, Any]]  # likewise
    progress: Progress
    tensors: Mapping[str, np.ndarray]
    name: str  # what to call it in a sentence
    finished: bool  # whether it is no training state
    checksum: str = ""

    @classmethod
    def load(cls, path: str, *kinds: str) -> "LanguageModel":
        """Read and verify a file: a model, or a training state, which has a model in it."""
        return cls.from_stored(container.read(path, *(kinds or (MODEL, STATE))))

    @classmethod
    def from_stored(cls, stored: container.Stored) -> "LanguageModel":
        """The model in a file that was read. What a model computes is in the fields of the metadata and in the shapes
        of its tensors; other options say only how it was trained, and need not be there."""
        fields, tensors = stored.fields, stored.tensors
        files, validation = (
            [file | {"path": path_from(stored.path, file["path"])} for file in fields[name]]
            for name in ("corpus", "validation")
        )
        sizes = {"embedding": tensors["embedding"].shape[1], "hidden": tensors["output"].shape[1]}
        if stored.kind == STATE:
            sizes["batch"] = tensors["hidden"].shape[1]
        settings = Settings(**fields["arguments"] | {name: fields[name] for name in DOCUMENTED} | sizes)
        return cls(
            WordIndex.from_stored(stored), settings, files, validation, Progress(**fields["progress"]), tensors,
            stored.name, stored.kind == MODEL, stored.checksum,
        )  # fmt: skip

    @property
    def shape(self) -> Shape:
        settings = self.settings
        return Shape(len(self.words), settings.embedding, settings.hidden, settings.layers)

    @property
    def end_of_line(self) -> int:
        return self.words.id(END_OF_LINE)

    @property
    def unknown(self) -> int:
        return self.words.id(UNKNOWN)

    def parameters(self) -> Parameters:
        """A copy, in the form that devices take."""
        shape, tensors = self.shape, self.tensors
        embedding = table(shape.words, shape.embedding)
        embedding[:, : shape.embedding] = tensors["embedding"]
        output = table(shape.words, shape.hidden + 1)
        output[:, : shape.hidden] = tensors["output"]
        output[:, shape.hidden] = tensors["output_bias"]
        layers = tuple(
            Layer(*(tensors[f"lstm.{layer}.{part}"] for part in ("input", "recurrent", "bias")))
            for layer in range(shape.layers)
        )
        return Parameters(shape, embedding, layers, output)


def save(
    path: str, kind: str, words: WordIndex, settings: Settings, files: list[dict[str, Any]],
    validation: list[dict[str, Any]], progress: Progress, tensors: Tensors,
) -> str:  # fmt: skip
    """Write a model or a state; returns the checksum that names it."""
    fields = {
        "arguments": settings.stored(),
        "corpus": [file | {"path": path_relative_to(path, file["path"])} for file in files],
        "validation": [file | {"path": path_relative_to(path, file["path"])} for file in validation],
        "progress": asdict(progress),
        **{name: getattr(settings, name) for name in DOCUMENTED},
    }
    if kind == STATE:
        fields["moments"] = settings.moments
    alphabet = {"words": words.words, "offsets": words.offsets, "counts": words.counts}
    return container.write(path, kind, fields, alphabet | tensors)
