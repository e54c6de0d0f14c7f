"""Files of language models: finished models, and checkpoints of unfinished trainings."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from neglm_cli.lm.device import Tensors
from neglm_cli.lm.parameters import Parameters, Shape, zero_parameters
from neglm_cli.settings.parameters import HIDDEN_STATE
from neglm_cli.settings.progress import Progress
from neglm_cli.settings.train_lm import Settings
from neglm_cli.store import container
from neglm_cli.store.schema import KINDS
from neglm_cli.text.provenance import path_from, path_relative_to
from neglm_cli.text.tokens import END_OF_LINE, UNKNOWN
from neglm_cli.text.word_index import WordIndex

MODEL, CHECKPOINT = "language model", "checkpoint"


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """The contents of a language model file or of a checkpoint."""

    words: WordIndex
    settings: Settings
    files: list[dict[str, Any]]  # the corpus; paths relative to the current directory
    validation: list[dict[str, Any]]  # the validation text, likewise
    progress: Progress
    tensors: Mapping[str, np.ndarray]
    name: str  # for messages
    finished: bool  # False for a checkpoint
    checksum: str = ""

    @classmethod
    def load(cls, path: str, *kinds: str) -> "LanguageModel":
        """Read and verify a model or a checkpoint."""
        return cls.from_stored(container.read(path, *(kinds or (MODEL, CHECKPOINT))))

    @classmethod
    def from_stored(cls, stored: container.Stored) -> "LanguageModel":
        """Return the model of a file.

        Metadata and shapes of tensors define the model; `arguments` describe its training and may be incomplete.
        """
        fields, tensors = stored.fields, stored.tensors
        files, validation = (
            [file | {"path": path_from(stored.path, file["path"])} for file in fields[name]]
            for name in ("corpus", "validation")
        )
        sizes = {"embedding": tensors["lstm.0.w_ih"].shape[0], "hidden": tensors["output"].shape[1]}
        if stored.kind == CHECKPOINT:
            sizes["batch"] = tensors[HIDDEN_STATE].shape[1]
        stated = {name: fields[name] for name in _settings_in_fields(stored.kind)}
        return cls(
            WordIndex.from_stored(stored), Settings(**fields["arguments"] | stated | sizes), files, validation,
            Progress(**fields["progress"]), tensors, stored.name, stored.kind == MODEL, stored.checksum,
        )  # fmt: skip

    @property
    def shape(self) -> Shape:
        return Shape.of(len(self.words), self.settings)

    @property
    def end_of_line(self) -> int:
        return self.words.id(END_OF_LINE)

    @property
    def unknown(self) -> int:
        return self.words.id(UNKNOWN)

    def parameters(self) -> Parameters:
        """Return a copy of the parameters in the layout that devices take."""
        made = zero_parameters(self.shape)
        for name, array in made.tensors().items():
            array[...] = self.tensors[name]
        return made


def save(
    path: str, kind: str, words: WordIndex, settings: Settings, files: list[dict[str, Any]],
    validation: list[dict[str, Any]], progress: Progress, tensors: Tensors,
) -> str:  # fmt: skip
    """Write a model or a checkpoint; return the checksum that names it."""
    fields = {
        "arguments": settings.stored(),
        "corpus": [file | {"path": path_relative_to(path, file["path"])} for file in files],
        "validation": [file | {"path": path_relative_to(path, file["path"])} for file in validation],
        "progress": asdict(progress),
        **{name: getattr(settings, name) for name in _settings_in_fields(kind)},
    }
    word_list = {"words": words.words, "offsets": words.offsets, "counts": words.counts}
    return container.write(path, kind, fields, word_list | tensors)


def _settings_in_fields(kind: str) -> list[str]:
    """Return the settings that are fields of the metadata, besides `arguments`."""
    return [option for option, other in KINDS[kind].redundant_options.items() if option == other]
