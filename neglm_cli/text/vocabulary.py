"""The vocabulary: the words of a model with their ids and counts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from neglm_cli.errors import NeglmError, count_of, times
from neglm_cli.scale.ranks import Ranks
from neglm_cli.store import container
from neglm_cli.store.wordlists import find_word
from neglm_cli.text.byte_order import gather_words, sort_by_bytes
from neglm_cli.text.count import Counts
from neglm_cli.text.provenance import path_from, path_relative_to
from neglm_cli.text.table import WordTable
from neglm_cli.text.tokens import END_OF_LINE, UNKNOWN, padded
from neglm_cli.text.word_index import WordIndex

ALWAYS_KEPT = 2  # <unk> and <eos>
MAX_TOTAL = 2**63 - 1
MAX_UINT16 = np.uint16(0xFFFF)
COUNT_FIELDS = ("lines", "tokens", "distinct_words", "oov_words", "oov_tokens", "unk_tokens")


@dataclass(frozen=True, eq=False)
class Vocabulary(WordIndex):
    """V words by descending count, then by bytes; a word's position is its id."""

    min_count: int
    max_vocab: int | None
    lines: int
    tokens: int  # words in the text, without line ends
    distinct_words: int
    oov_words: int
    oov_tokens: int
    unk_tokens: int
    files: list[dict[str, Any]]  # the corpus; paths relative to the current directory

    @property
    def coverage(self) -> float:
        """The fraction of the text's words that are in the vocabulary."""
        return 1 - self.oov_tokens / self.tokens if self.tokens else 1.0

    def save(self, path: str) -> str:
        """Write the vocabulary and return the file's checksum."""
        fields = {name: getattr(self, name) for name in COUNT_FIELDS} | {
            "arguments": {"min_count": self.min_count, "max_vocab": self.max_vocab},
            "corpus": [file | {"path": path_relative_to(path, file["path"])} for file in self.files],
        }
        tensors = {"words": self.words, "offsets": self.offsets, "counts": self.counts}
        return container.write(path, "vocabulary", fields, tensors)

    @classmethod
    def load(cls, path: str) -> "Vocabulary":
        """Read and verify a vocabulary file."""
        return cls.of_file(container.read(path, "vocabulary"))

    @classmethod
    def of_file(cls, stored: container.Stored) -> "Vocabulary":
        """Return the vocabulary in a file that was read."""
        fields, tensors = stored.fields, stored.tensors
        files = [file | {"path": path_from(stored.path, file["path"])} for file in fields["corpus"]]
        numbers = {name: fields[name] for name in COUNT_FIELDS}
        return cls(
            tensors["words"], tensors["offsets"], tensors["counts"], **fields["arguments"], **numbers, files=files
        )

    def full_counts(self, name: str) -> Counts:
        """Return the counts of all words in the text. Raise if the vocabulary was cut."""
        if self.oov_words:
            raise NeglmError(
                f"{name} was cut ({count_of(self.oov_words, 'word')} left out), so merging it would not be exact: "
                "make it again without --min-count and --max-vocab, and give those to --merge"
            )
        counts = self.counts.copy()
        counts[self.id(UNKNOWN)] = self.unk_tokens
        counts[self.id(END_OF_LINE)] -= self.lines
        return Counts(self.offsets, counts, padded(self.words.data), False, self.lines, self.tokens, self.files)


def build(counts: Counts, min_count: int = 1, max_vocab: int | None = None) -> Vocabulary:
    """Select and sort the words. Cut words count as `<unk>`; `<unk>` and `<eos>` are always kept."""
    unknown, end_of_line = (find_word(word, counts.word_bytes, counts.offsets) for word in (UNKNOWN, END_OF_LINE))
    totals = np.array(counts.counts)
    unk_tokens = int(totals[unknown])
    distinct_words = len(totals) - int(totals[unknown] == 0) - int(totals[end_of_line] == 0) + counts.oov_words
    totals[end_of_line] += counts.lines

    ordinary = np.ones(len(totals), bool)
    ordinary[[unknown, end_of_line]] = False
    entries = _select(counts, totals, ordinary, min_count, max_vocab)
    if len(entries) == ALWAYS_KEPT and ordinary.any():
        raise NeglmError(
            f"--min-count {min_count} leaves no words: the most frequent one occurs "
            f"{times(int(totals[ordinary].max()))}; lower --min-count"
        )
    oov_words = int(ordinary.sum()) - (len(entries) - ALWAYS_KEPT) + counts.oov_words
    oov_tokens = int(totals[ordinary].sum()) - int(totals[entries[ordinary[entries]]].sum()) + counts.oov_tokens
    totals[unknown] = max(1, unk_tokens + oov_tokens)  # so that its probability is never zero

    order = entries[_sort_by_count(totals[entries])]
    lengths = counts.offsets[order + 1] - counts.offsets[order]
    offsets = np.empty(len(order) + 1, np.int64)
    words = np.empty(int(lengths.sum()), np.uint8)
    gather_words(order, counts.offsets, counts.word_bytes, offsets, words)
    return Vocabulary(
        words, offsets, totals[order], min_count, max_vocab, counts.lines, counts.tokens, distinct_words,
        oov_words, oov_tokens, unk_tokens, counts.files,
    )  # fmt: skip


def _select(
    counts: Counts, totals: np.ndarray, ordinary: np.ndarray, min_count: int, max_vocab: int | None
) -> np.ndarray:
    """Return the entries to keep, sorted by their words' bytes. ordinary: bool, False for `<unk>` and `<eos>`."""
    entries = np.flatnonzero((totals >= min_count) | ~ordinary)
    if not counts.is_sorted:
        entries = sort_by_bytes(entries, counts.offsets, counts.word_bytes)
    if max_vocab is not None and len(entries) > max_vocab:
        ranked = entries[_sort_by_count(totals[entries])]
        keep = ~ordinary
        keep[ranked[ordinary[ranked]][: max_vocab - ALWAYS_KEPT]] = True
        entries = entries[keep[entries]]
    return entries


def gather_counts(counts: Counts, min_count: int, max_vocab: int | None, ranks: Ranks) -> Counts:
    """Gather the counts of the words that a vocabulary may contain on rank 0, which builds it. Of the other words, only
    totals are sent. (Each rank's most frequent word is always sent: `build` may have to report its count.)"""
    if ranks.size == 1:
        return counts
    ordinary = np.ones(len(counts.counts), bool)
    for word in (UNKNOWN, END_OF_LINE):
        if (entry := find_word(word, counts.word_bytes, counts.offsets)) >= 0:
            ordinary[entry] = False
    keep = ~ordinary
    keep[_select(counts, counts.counts, ordinary, min_count, max_vocab)] = True
    if ordinary.any():
        keep[np.argmax(np.where(ordinary, counts.counts, -1))] = True
    entries = np.flatnonzero(keep)
    lengths = counts.offsets[entries + 1] - counts.offsets[entries]
    offsets, word_bytes = np.empty(len(entries) + 1, np.int64), np.empty(int(lengths.sum()), np.uint8)
    gather_words(entries, counts.offsets, counts.word_bytes, offsets, word_bytes)
    cut = ranks.allgather((int((~keep).sum()), int(counts.counts[~keep].sum())))
    totals = ranks.gather_arrays(counts.counts[entries])
    offsets = np.append(0, np.cumsum(ranks.gather_arrays(lengths)))
    word_bytes = padded(ranks.gather_arrays(word_bytes).data)
    return replace(
        counts, offsets=offsets, counts=totals, word_bytes=word_bytes, is_sorted=False,
        oov_words=sum(words for words, _ in cut), oov_tokens=sum(tokens for _, tokens in cut),
    )  # fmt: skip


def merge(parts: Sequence[Counts]) -> Counts:
    """Sum the counts of several texts: the exact counts of their concatenation."""
    if sum(part.tokens + part.lines for part in parts) > MAX_TOTAL:
        raise NeglmError(f"the counts add up to more than {MAX_TOTAL:,}, the maximum that a file can store")
    table = WordTable()
    for part in parts:
        table.add_words(part.offsets, part.counts, part.word_bytes)
    return Counts(
        table.offsets, table.counts, table.word_bytes, False,
        sum(part.lines for part in parts),
        sum(part.tokens for part in parts),
        [file for part in parts for file in part.files],
    )  # fmt: skip


def load_kernels() -> None:
    """Load the kernels of merging and building from the disk cache, while threads count."""
    table = WordTable()
    for word in (UNKNOWN, END_OF_LINE):
        table.add_word(word, 1)
    build(Counts(table.offsets, table.counts, table.word_bytes, False, 1, 1, []))


def _sort_by_count(totals: np.ndarray) -> np.ndarray:
    """Return the permutation that sorts by descending count; stable.

    Nearly all counts fit into 16 bits, which NumPy radix-sorts in linear time; the few larger ones come first.
    """
    order = np.argsort(MAX_UINT16 - np.minimum(totals, MAX_UINT16).astype(np.uint16), kind="stable")
    large = order[: np.count_nonzero(totals >= MAX_UINT16)]
    large[:] = large[np.argsort(-totals[large], kind="stable")]
    return order
