"""Loading of language models, and lines of text as word ids."""

import os
import shlex
from typing import TYPE_CHECKING, NamedTuple

from neglm_cli.cli.console import console
from neglm_cli.cli.options import DEFAULT_MODEL, find_gpu, thread_count
from neglm_cli.errors import NeglmError, shown
from neglm_cli.store.output import STANDARD_STREAM

if TYPE_CHECKING:
    import numpy as np

    from neglm_cli.lm.device import Device, Scorer
    from neglm_cli.lm.model import LanguageModel
    from neglm_cli.text.encode import Encoder


class Line(NamedTuple):
    """A line of text, with the ids of its words."""

    text: bytes
    words: list[bytes]
    ids: "np.ndarray"  # int32
    unknown: list[bool]  # True for out-of-vocabulary words


class Opened(NamedTuple):
    """A language model on a device."""

    model: "LanguageModel"
    device: "Device"
    scorer: "Scorer"
    encoder: "Encoder"

    def line(self, text: bytes) -> Line:
        """Encode a line; out-of-vocabulary words become `<unk>`."""
        import numpy as np

        ids = self.encoder.encode(text)
        unknown = ids == len(self.model.words)
        return Line(text, text.split(), np.where(unknown, self.model.unknown, ids).astype(np.int32), unknown.tolist())


def load_model(path: str) -> "LanguageModel":
    from neglm_cli.lm.model import LanguageModel

    model = LanguageModel.load(path)
    if not model.finished:
        console.note(f"{model.name} is a checkpoint of an unfinished training: results are preliminary")
    return model


def open_model(path: str, device: str, threads: int | None, capacity: int) -> Opened:
    """Load a model onto a device. device: as --device names it; capacity: words that are scored at a time."""
    from neglm_cli.lm.devices import scoring_device
    from neglm_cli.text.encode import Encoder

    gpu = find_gpu(device)
    model = load_model(path)
    loaded = scoring_device(model, thread_count(threads), gpu, console.note)
    encoder = Encoder(model.words, unknown=len(model.words))  # so that <unk> in a text is told from unknown words
    return Opened(model, loaded, loaded.scorer(capacity), encoder)


def model_and_texts(
    model: str | None, files: list[str], named: str | None, command: str
) -> tuple[str, list[str]]:  # fmt: skip
    """Return the model and the texts. With --model, all arguments are texts; otherwise a single one may be either."""
    from neglm_cli.store.container import is_safetensors

    if named is not None:
        return named, [text for text in (model, *files) if text is not None] or [STANDARD_STREAM]
    if model is None or (model == STANDARD_STREAM and not files):
        return DEFAULT_MODEL, [STANDARD_STREAM]
    if not os.path.isfile(model) or is_safetensors(model):
        return model, files or [STANDARD_STREAM]
    named = shlex.join(["neglm", command, DEFAULT_MODEL, model, *files])
    if files:
        raise NeglmError(f"{shown(model)} is not a model: a model comes before the texts, as in `{named}`")
    if not os.path.exists(DEFAULT_MODEL):
        raise NeglmError(
            f"{shown(model)} is not a model, and there is no {DEFAULT_MODEL} here to {command} it with: train one with "
            f"`neglm train-lm`, or name one, as in `{named}`"
        )
    console.note(f"{shown(model)} is a text: read with {DEFAULT_MODEL}")
    return DEFAULT_MODEL, [model]
