"""What commands share that read texts with a language model."""

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
    """A line of text, as the model sees it."""

    text: bytes
    words: list[bytes]
    ids: "np.ndarray"  # int32
    unknown: list[bool]  # words that are out of the vocabulary


class Opened(NamedTuple):
    """A language model, ready to read."""

    model: "LanguageModel"
    device: "CpuDevice"
    scorer: "CpuScorer"
    encoder: "Encoder"

    def line(self, text: bytes) -> Line:
        """Words as the vocabulary knows them: those that it does not are `<unk>`."""
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
        console.note(f"{model.name} is the state of a training that is not finished: this is how good it is so far")
    return model


def open_model(path: str, threads: int | None, rows: int) -> Opened:
    """rows: words that go through the network together."""
    from neglm_cli.lm.devices import cpu_device_with
    from neglm_cli.text.encode import Encoder

    model = load_model(path)
    device = cpu_device_with(model, thread_count(threads))
    encoder = Encoder(model.words, unknown=len(model.words))  # so that <unk> in a text is told from unknown words
    return Opened(model, device, device.scorer(rows), encoder)
