"""A training as a whole: the model, what it learns from, how far it is; and its files on the way."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.lm.cpu.device import CpuDevice
from neglm_cli.lm.model import MODEL, STATE, LanguageModel, Progress, save
from neglm_cli.lm.parameters import Shape, start
from neglm_cli.lm.scoring import AT_ONCE, Reader
from neglm_cli.lm.settings import Settings
from neglm_cli.lm.trainer import Trainer
from neglm_cli.objective.losses import first_bias
from neglm_cli.text.alphabet import Alphabet
from neglm_cli.text.encoded import EncodedCorpus
from neglm_cli.text.tokens import END_OF_LINE, UNKNOWN

PIECE = 1 << 16  # words of a validation text that are read at a time
LOOKED_AT = 1 << 20  # words of a corpus that show whether it belongs to a vocabulary
TOO_MANY_UNKNOWN = 0.9


@dataclass(eq=False)
class Job:
    words: Alphabet
    settings: Settings
    corpus: EncodedCorpus
    files: list[dict[str, Any]]
    valid: EncodedCorpus | None
    valid_files: list[dict[str, Any]]
    device: CpuDevice
    progress: Progress

    def trainer(self) -> Trainer:
        validate = self.validate if self.valid is not None else None
        return Trainer(self.corpus, self.device, self.settings, self.progress, validate)

    def validate(self) -> float:
        """The perplexity of the validation text."""
        assert self.valid is not None
        reader = Reader(
            self.device.scorer(AT_ONCE), self.words.counts, self.words.id(UNKNOWN), self.words.id(END_OF_LINE)
        )
        cursor = self.valid.cursor(0)
        while len(piece := cursor.take(PIECE)):
            reader.read(piece)
        return reader.tally.perplexity

    def save_model(self, path: str) -> None:
        self._save(path, MODEL, self.device.parameters())

    def save_state(self, path: str) -> None:
        self._save(path, STATE, self.device.parameters() | self.device.state())

    def _save(self, path: str, kind: str, tensors: Any) -> None:
        save(path, kind, self.words, self.settings, self.files, self.valid_files, self.progress, tensors)

    def go_on(self, state: LanguageModel, tensors: Mapping[str, np.ndarray]) -> None:
        """From where another run has stopped."""
        self.device.restore(tensors)
        self.progress = state.progress


def new_device(words: Alphabet, settings: Settings, empty: bool = False) -> CpuDevice:
    """A device with a model that knows nothing yet; an `empty` one is all zeros, and takes no memory for words that
    are not used."""
    shape = Shape(len(words), settings.embedding, settings.hidden, settings.layers)
    bias = first_bias(settings.loss, len(words)) if settings.bias_init is None else settings.bias_init
    sizes = (0.0, 0.0, 0.0) if empty else (settings.init, settings.init_output, bias)
    device = CpuDevice(start(shape, settings.seed, *sizes), settings, words.counts, words.id(END_OF_LINE))
    device.prepare_training()
    return device


def check_known(corpus: EncodedCorpus, words: Alphabet, name: str, all_unknown: float = TOO_MANY_UNKNOWN) -> None:
    """Refuse a text that the vocabulary was not made for."""
    ids = corpus.cursor(0).take(LOOKED_AT)
    real = ids[ids != words.id(END_OF_LINE)]
    unknown = float((real == words.id(UNKNOWN)).mean()) if len(real) else 0.0
    if len(real) and unknown > all_unknown:
        raise NeglmError(
            f"{unknown:.0%} of the words of {name} are not in the vocabulary: it belongs to another text; make one for "
            "this text with `neglm vocab`"
        )
