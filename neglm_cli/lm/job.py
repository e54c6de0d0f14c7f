"""A training run: its texts, settings, device and progress, and its checkpoints."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from neglm_cli.errors import NeglmError, count_of
from neglm_cli.lm.device import Device, Tensors
from neglm_cli.lm.devices import make_device
from neglm_cli.lm.model import CHECKPOINT, MODEL, save
from neglm_cli.lm.parameters import Shape, initial_parameters, zero_parameters
from neglm_cli.lm.scoring import Segment, SkippingReader, Tally, segment_bounds
from neglm_cli.lm.trainer import Stopped, Trainer
from neglm_cli.scale.agreement import on_rank0
from neglm_cli.scale.ranks import SINGLE_RANK, Ranks
from neglm_cli.settings.progress import Progress
from neglm_cli.settings.train_lm import Settings
from neglm_cli.text.batches import Batches
from neglm_cli.text.encoded import EncodedCorpus
from neglm_cli.text.tokens import END_OF_LINE, UNKNOWN
from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors.vectors import Vectors

if TYPE_CHECKING:
    from neglm_cli.lm.cuda.gpu import Gpu

SAMPLED_WORDS = 1 << 20  # of a corpus, to see whether it belongs to a vocabulary
TOO_MANY_UNKNOWN = 0.9
VALIDATION_CHUNK = 256  # words of a forward pass; the last bits of perplexities depend on it


@dataclass(frozen=True, eq=False)
class Texts:
    """The encoded texts of a training, and the records of their files."""

    words: WordIndex
    corpus: EncodedCorpus
    files: list[dict[str, Any]]
    valid: EncodedCorpus | None = None
    valid_files: list[dict[str, Any]] = field(default_factory=list)


class ReadProgress(Protocol):
    """A progress display, advanced by the number of words read since the last call."""

    def advance(self, amount: int) -> None: ...


class NullProgress:
    """A progress display that shows nothing."""

    def advance(self, amount: int) -> None:
        pass


def _no_progress(words: int) -> AbstractContextManager[ReadProgress]:
    return nullcontext(NullProgress())


class Job:
    """State of a training run."""

    validation_progress: Callable[[int], AbstractContextManager[ReadProgress]]  # called with the words to validate on

    def __init__(
        self, texts: Texts, settings: Settings, device: Device, progress: Progress, ranks: Ranks = SINGLE_RANK
    ) -> None:
        self.texts = texts
        self.ranks = ranks
        self.settings = settings
        self.device = device
        self.progress = progress
        self.validation_progress = _no_progress
        validate = self.validate if texts.valid is not None else None
        self.trainer = Trainer(texts.corpus, device, settings, progress, validate, ranks)

    def validate(self) -> float:
        """Return the perplexity of the validation text; each rank scores a segment of it."""
        assert self.texts.valid is not None
        words, valid, ranks = self.texts.words, self.texts.valid, self.ranks
        scorer = self.device.scorer(VALIDATION_CHUNK)
        reader = SkippingReader(scorer, words.counts, words.id(UNKNOWN), words.id(END_OF_LINE))
        starts = segment_bounds(valid.length, self.device.shape, ranks.size)
        segment = Segment(reader, *starts[ranks.rank : ranks.rank + 2])
        cursor = valid.cursor(0)
        with self.validation_progress(starts[ranks.rank + 1]) as watched:
            while not (segment.ended or self.trainer.stopping):
                ids = cursor.take(VALIDATION_CHUNK)
                segment.read(ids)
                watched.advance(len(ids))
        if ranks.any(not segment.ended):
            raise Stopped
        return sum(ranks.allgather(reader.tally), Tally()).perplexity

    def save_model(self, path: str) -> None:
        with self.trainer.averaged():
            self._save(path, MODEL, self.device.parameters())

    def save_checkpoint(self, path: str) -> None:
        self._save(path, CHECKPOINT, self.device.parameters() | self.device.state())

    def _save(self, path: str, kind: str, tensors: Tensors) -> None:
        """Write a file on rank 0. All ranks wait: a rank that exits early aborts the job mid-write."""
        texts, settings, progress = self.texts, self.settings, self.progress
        on_rank0(
            self.ranks,
            lambda: save(path, kind, texts.words, settings, texts.files, texts.valid_files, progress, tensors),
        )


def new_device(
    words: WordIndex, settings: Settings, gpu: "Gpu | None" = None, note: Callable[[str], None] = lambda _: None,
    empty: bool = False, vectors: Vectors | None = None, ranks: Ranks = SINGLE_RANK,
) -> Device:  # fmt: skip
    """Make a device with a new model. vectors: the embedding's initial values for words that they have. empty: all
    parameters are 0, to be restored or timed; rows of tables take no memory until they are used."""
    shape = Shape.of(len(words), settings)
    parameters = zero_parameters(shape) if empty else initial_parameters(shape, settings)
    if vectors is not None:
        ids = vectors.words.ids(words)
        parameters.tensors()[shape.input_vectors][ids >= 0] = vectors.vectors[ids[ids >= 0]]
        note(f"{(ids >= 0).sum():,} of {len(words):,} words start from these vectors")
    end_of_line = words.id(END_OF_LINE)
    return make_device(parameters, settings, words.counts, end_of_line, gpu, training=True, note=note, ranks=ranks)


def check_known(corpus: EncodedCorpus, words: WordIndex, name: str) -> None:
    """Raise if most words of a text are missing from the vocabulary."""
    ids = corpus.cursor(0).take(SAMPLED_WORDS)
    real = ids[ids != words.id(END_OF_LINE)]
    unknown = float((real == words.id(UNKNOWN)).mean()) if len(real) else 0.0
    if unknown > TOO_MANY_UNKNOWN:
        raise NeglmError(
            f"{unknown:.0%} of the words of {name} are not in the vocabulary: it belongs to another text; make one for "
            "this text with `neglm vocab`"
        )


def check_batch(corpus: EncodedCorpus, settings: Settings, ranks: Ranks = SINGLE_RANK) -> None:
    """Raise if the corpus is too short for the batch, or the batch too small for the ranks."""
    if settings.batch < ranks.size:
        raise NeglmError(
            f"a batch of {count_of(settings.batch, 'row')} cannot be divided among {ranks.size:,} ranks: "
            "use a larger --batch"
        )
    Batches(corpus, settings.batch, settings.bptt)
