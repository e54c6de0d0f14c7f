"""Loading of language models, and lines of text as word ids."""

from typing import TYPE_CHECKING, NamedTuple

from neglm_cli.cli.console import console
from neglm_cli.cli.options import thread_count
from neglm_cli.cli.queries import as_text

if TYPE_CHECKING:
    import numpy as np

    from neglm_cli.lm.cpu.device import CpuDevice, CpuScorer
    from neglm_cli.lm.model import LanguageModel
    from neglm_cli.text.encode import Encoder


class Line(NamedTuple):
    """A line of text, with the ids of its words."""

    text: bytes
    words: list[bytes]
    ids: "np.ndarray"  # int32
    unknown: list[bool]  # True for out-of-vocabulary words


class Opened(NamedTuple):
    """A language model, ready to score text."""

    model: "LanguageModel"
    device: "CpuDevice"
    scorer: "CpuScorer"
    encoder: "Encoder"

    def line(self, text: bytes) -> Line:
        """Encode a line; out-of-vocabulary words become `<unk>`."""
        import numpy as np

        ids = self.encoder.encode(text)
        unknown = ids == len(self.model.words)
        return Line(text, text.split(), np.where(unknown, self.model.unknown, ids).astype(np.int32), unknown.tolist())

    def word(self, id_: int) -> str:
        return as_text(self.model.words[id_])


def load_model(path: str) -> "LanguageModel":
    from neglm_cli.lm.model import LanguageModel

    model = LanguageModel.load(path)
    if not model.finished:
        console.note(f"{model.name} is a checkpoint of an unfinished training: results are preliminary")
    return model


def open_model(path: str, threads: int | None, rows: int) -> Opened:
    """Load a model and make a scorer for it. rows: words that are scored at a time."""
    from neglm_cli.lm.devices import cpu_device_with
    from neglm_cli.text.encode import Encoder

    model = load_model(path)
    device = cpu_device_with(model, thread_count(threads))
    encoder = Encoder(model.words, unknown=len(model.words))  # tells <unk> in the text from OOV words
    return Opened(model, device, device.scorer(rows), encoder)
