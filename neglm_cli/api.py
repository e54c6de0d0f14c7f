"""neglm from Python: what a notebook needs, without a subprocess.

    import neglm_cli

    model = neglm_cli.load("model.safetensors")
    model.score("the market rose")
    model.score(["the market rose", "rose market the"])
    model.perplexity("test.txt")
    print(model.generate("the market", words=20))
    model.vectors[model.id("market")]

A file of vectors gives words and vectors; a language model gives all of it.
"""

from collections.abc import Iterable
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, overload

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.store import container
from neglm_cli.vectors.vectors import WITH_VECTORS, Vectors, vectors_of

if TYPE_CHECKING:
    from neglm_cli.lm.device import Device
    from neglm_cli.lm.model import LanguageModel

__all__ = ["Model", "NeglmError", "load"]


class Model:
    """Words with their vectors; and, if the file is a language model, what it makes of texts."""

    def __init__(self, path: str, table: str | None = None, threads: int | None = None) -> None:
        self._stored = container.read(path, *WITH_VECTORS)
        self._vectors: Vectors = vectors_of(self._stored, table)
        self._threads = threads

    @cached_property
    def words(self) -> list[str]:
        """The most frequent first; bytes that are no UTF-8 are kept, as Python keeps those of file names."""
        return [word.decode(errors="surrogateescape") for word in self._vectors.words]

    @property
    def counts(self) -> np.ndarray:
        """int64 (V,): how often each word occurs in the text it was trained on."""
        return self._vectors.words.counts

    @property
    def vectors(self) -> np.ndarray:
        """float32 (V, D): of a language model, those of words as inputs, or of the table that was asked for."""
        return self._vectors.vectors

    def id(self, word: str) -> int:
        """The place of a word in `words` and `vectors`; a KeyError if there is none."""
        found = self._vectors.words.id(word.encode(errors="surrogateescape"))
        if found < 0:
            raise KeyError(word)
        return found

    @overload
    def score(self, lines: str, normalised: bool = True) -> float: ...  # type: ignore[overload-overlap]

    @overload
    def score(self, lines: Iterable[str], normalised: bool = True) -> list[float]: ...

    def score(self, lines: str | Iterable[str], normalised: bool = True) -> float | list[float]:
        """Return the natural log-probability of a line with its end, or the list of those of several lines.

        Lines are independent. Their words are separated by white space; words out of the vocabulary count as <unk>.
        """
        from neglm_cli.lm.lines import BATCH_WORDS, LineScorer

        scorer = LineScorer(self._device.scorer(BATCH_WORDS), self._model.end_of_line, normalised)
        given = [lines] if isinstance(lines, str) else lines
        found = [float(scores.sum()) for scores in scorer.score([self._ids(line) for line in given])]
        return found[0] if isinstance(lines, str) else found

    def perplexity(self, file: str) -> float:
        """That of a text, plain or compressed, read as one text from its first word to its last."""
        from neglm_cli.lm.scoring import CHUNK, Reader
        from neglm_cli.text.corpus import open_corpus
        from neglm_cli.text.encode import Encoder

        model, corpus = self._model, open_corpus([file])
        reader = Reader(self._device.scorer(CHUNK), model.words.counts, model.unknown, model.end_of_line)
        for _, ids in Encoder(model.words).encode_corpus(corpus, self._thread_count):
            reader.read(ids)
        return reader.tally.perplexity

    def generate(
        self, prompt: str = "", words: int = 50, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0,
        seed: int = 1, unknown: bool = True,
    ) -> str:  # fmt: skip
        """Text that begins with the prompt, `words` words and ends of line long. The same seed writes the same text."""
        from neglm_cli.lm.generation import Generator, SamplingParams

        model = self._model
        sampling = SamplingParams(temperature, top_k, top_p, () if unknown else (model.unknown,))
        beginning = np.concatenate([[model.end_of_line], self._ids(prompt)]).astype(np.int32)
        drawn = islice(Generator(self._device.scorer(1), beginning, seed, sampling).words(), words)
        text = " ".join([*prompt.split(), *("\n" if word == model.end_of_line else self.words[word] for word in drawn)])
        return text.replace(" \n ", "\n").replace(" \n", "\n")

    def _ids(self, line: str) -> np.ndarray:
        from neglm_cli.text.encode import Encoder

        return Encoder(self._model.words).encode(line.replace("\n", " ").encode(errors="surrogateescape"))

    @cached_property
    def _model(self) -> "LanguageModel":
        from neglm_cli.lm.model import MODEL, LanguageModel

        if self._stored.kind != MODEL:
            raise NeglmError(f"{self._stored.name} is a file of vectors, not a language model")
        return LanguageModel.from_stored(self._stored)

    @cached_property
    def _device(self) -> "Device":
        from neglm_cli.lm.devices import scoring_device

        return scoring_device(self._model, self._thread_count)

    @property
    def _thread_count(self) -> int:
        from neglm_cli.text.parallel import usable_cores

        return self._threads or usable_cores()


def load(path: str, table: str | None = None, threads: int | None = None) -> Model:
    """A file of vectors or a language model. table: of a language model, "input" or "output"; threads: all cores."""
    return Model(path, table, threads)
