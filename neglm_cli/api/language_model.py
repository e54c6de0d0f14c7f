"""Language models."""

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, overload

import numpy as np

from neglm_cli.api.decoding import BATCH_STATES, Decoder, TextState
from neglm_cli.api.files import WordVectors, decode, encode
from neglm_cli.api.keywords import Path, paths_of
from neglm_cli.kernels.compilers import usable_cores
from neglm_cli.lm import model
from neglm_cli.lm.devices import scoring_device
from neglm_cli.lm.generation import Generator, SamplingParams, next_words
from neglm_cli.lm.lines import BATCH_WORDS, LineScorer
from neglm_cli.lm.scoring import CHUNK, Reader
from neglm_cli.runs.resources import find_gpu
from neglm_cli.store.container import Stored
from neglm_cli.text.corpus import open_corpus
from neglm_cli.text.encode import Encoder

if TYPE_CHECKING:
    from neglm_cli.lm.device import Device


class LanguageModel(WordVectors):
    """A language model. It scores and generates text; its word vectors are those of the input or output table.

    Words in a text are separated by white space. Words that are not in the vocabulary are read as `<unk>`; `<eos>` is
    the end of a line."""

    def __init__(
        self, stored: Stored, table: str | None = None, device: str = "cpu", threads: int | None = None
    ) -> None:
        super().__init__(stored, table)
        self._model = model.LanguageModel.from_stored(stored)
        self._device_name = device
        self._threads = threads or usable_cores()

    @property
    def settings(self) -> dict[str, object]:
        """The settings of its training."""
        return self._model.settings.stored()

    @property
    def finished(self) -> bool:
        """False for the checkpoint of an unfinished training."""
        return self._model.finished

    @overload
    def score(self, lines: str, base: float = math.e, normalized: bool = True) -> float: ...  # type: ignore[overload-overlap]

    @overload
    def score(self, lines: Iterable[str], base: float = math.e, normalized: bool = True) -> list[float]: ...

    def score(self, lines: str | Iterable[str], base: float = math.e, normalized: bool = True) -> float | list[float]:
        """Return the log-probability of a line with its end, or a list of those of several lines.

        Lines are independent. base: of the logarithm. normalized: if False, use scores that training has driven
        towards log-probabilities, which is faster."""
        if isinstance(lines, str):
            return self.score([lines], base, normalized)[0]
        return [float(scores.sum()) for _, scores in self._scored(lines, base, normalized)]

    @overload
    def word_scores(self, lines: str, base: float = math.e) -> list[tuple[str, float]]: ...  # type: ignore[overload-overlap]

    @overload
    def word_scores(self, lines: Iterable[str], base: float = math.e) -> list[list[tuple[str, float]]]: ...

    def word_scores(
        self, lines: str | Iterable[str], base: float = math.e
    ) -> list[tuple[str, float]] | list[list[tuple[str, float]]]:
        """Return the words of a line and `<eos>`, each with its log-probability; or a list of such lists."""
        if isinstance(lines, str):
            return self.word_scores([lines], base)[0]
        return [
            list(zip([*_split(line), "<eos>"], scores.tolist(), strict=True))
            for line, scores in self._scored(lines, base)
        ]

    def _scored(self, lines: Iterable[str], base: float, normalized: bool = True) -> list[tuple[str, np.ndarray]]:
        if not (base > 0 and base != 1 and math.isfinite(base)):
            raise ValueError(f"base {base} is not the base of a logarithm")
        listed = list(lines)
        scorer = LineScorer(self._device.scorer(BATCH_WORDS), self._model.end_of_line, normalized)
        scores = scorer.score([self._ids(line) for line in listed])
        return [(line, found / math.log(base)) for line, found in zip(listed, scores, strict=True)]

    def next(self, prefix: str = "", n: int = 10) -> list[tuple[str, float]]:
        """Return the n most likely words after the beginning of a line, each with its probability."""
        found = next_words(self._device.scorer(1), self._prompt(prefix), n)
        return [(decode(self._index[word]), probability) for word, probability in found]

    def perplexity(self, file: Path) -> float:
        """Return the perplexity of a text file, plain or compressed, which is read as one sequence."""
        loaded, corpus = self._model, open_corpus(paths_of(file))
        reader = Reader(self._device.scorer(CHUNK), loaded.words.counts, loaded.unknown, loaded.end_of_line)
        for _, ids in Encoder(loaded.words).encode_corpus(corpus, self._threads):
            reader.read(ids)
        return reader.tally.perplexity

    def generate(
        self, prompt: str = "", words: int = 50, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0,
        seed: int = 1, unknown: bool = True,
    ) -> str:  # fmt: skip
        """Return the prompt followed by `words` words and line ends. The same seed gives the same text.

        temperature: 0 takes the most likely word. top_k, top_p: draw from the most likely words only. unknown: allow
        `<unk>`."""
        end = self._model.end_of_line
        sampling = SamplingParams(temperature, top_k, top_p, () if unknown else (self._model.unknown,))
        drawn = islice(Generator(self._device.scorer(1), self._prompt(prompt), seed, sampling).words(), words)
        text = " ".join([*_split(prompt), *("\n" if word == end else decode(self._index[word]) for word in drawn)])
        return text.replace(" \n ", "\n").replace(" \n", "\n")

    def start(self) -> TextState:
        """Return the state at the beginning of a line: `model.start().advance("the").top(5)`."""
        return self._decoder.start()

    def advance(self, states: Sequence[TextState], words: Sequence[str]) -> list[TextState]:
        """Advance each state by its word, all together, which is faster than one by one."""
        return self._decoder.advance(states, words)

    def _prompt(self, text: str) -> np.ndarray:
        """Return the ids of a text at the beginning of a line."""
        return np.concatenate([[self._model.end_of_line], self._ids(text)]).astype(np.int32)

    def _ids(self, line: str) -> np.ndarray:
        return self._encoder.encode(encode(line.replace("\n", " ")))

    @cached_property
    def _decoder(self) -> Decoder:
        return Decoder(self._model, self._device.scorer(BATCH_STATES))

    @cached_property
    def _encoder(self) -> Encoder:
        return Encoder(self._model.words)

    @cached_property
    def _device(self) -> "Device":
        return scoring_device(self._model, self._threads, find_gpu(self._device_name, _ignore), _ignore)

    def _described(self) -> str:
        settings = self._model.settings
        unfinished = "" if self.finished else ", unfinished"
        return f"{settings.loss}, {len(self):,} words, {settings.layers}×{settings.hidden}{unfinished}"


def _split(line: str) -> list[str]:
    """Split a line at ASCII white space, as the tokenizer does: `str.split` splits at other characters, too."""
    return [decode(word) for word in encode(line).split()]


def _ignore(note: str) -> None:
    """Notes are for the command line."""
