"""The vocabulary: which words a model knows, in which order, and how often each was seen."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from neglm_cli.errors import NeglmError, count_of, times
from neglm_cli.scale.ranks import Ranks
from neglm_cli.store import container
from neglm_cli.text.alphabet import Alphabet
from neglm_cli.text.count import Counts
from neglm_cli.text.order import byte_order, gather
from neglm_cli.text.remembered import path_from, path_relative_to
from neglm_cli.text.table import WordTable, position
from neglm_cli.text.tokens import END_OF_LINE, UNKNOWN, padded

ALWAYS_KEPT = 2  # <unk> and <eos>
LARGEST_TOTAL = 2**63 - 1
SIXTEEN_BITS = np.uint16(0xFFFF)
NUMBERS = ("lines", "tokens", "distinct", "cut_words", "cut_tokens", "unknown_in_text")


@dataclass(frozen=True, eq=False)
class Vocabulary(Alphabet):
    """V words, most frequent first, equal counts in the order of their bytes; a word's place is its id."""

    min_count: int
    max_size: int | None
    lines: int
    tokens: int  # words of the text, without ends of line
    distinct: int
    cut_words: int
    cut_tokens: int
    unknown_in_text: int
    files: list[dict[str, Any]]  # the corpus; paths from the current directory

    @property
    def coverage(self) -> float:
        """The share of the text's words that are in the vocabulary."""
        return 1 - self.cut_tokens / self.tokens if self.tokens else 1.0

    def save(self, path: str) -> str:
        """Write the vocabulary; returns the checksum that names it."""
        fields = {name: getattr(self, name) for name in NUMBERS} | {
            "arguments": {"min_count": self.min_count, "max_size": self.max_size},
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
        """The vocabulary in a file that was read."""
        fields, tensors = stored.fields, stored.tensors
        files = [file | {"path": path_from(stored.path, file["path"])} for file in fields["corpus"]]
        numbers = {name: fields[name] for name in NUMBERS}
        return cls(
            tensors["words"], tensors["offsets"], tensors["counts"], **fields["arguments"], **numbers, files=files
        )

    def uncut(self, name: str) -> Counts:
        """The counts of the text it was made from, if nothing was cut away."""
        if self.cut_words:
            raise NeglmError(
                f"{name} was cut ({count_of(self.cut_words, 'word')} left out), so merging it would not be exact: "
                "make it again without --min-count and --max-size, and give those to --merge"
            )
        counts = self.counts.copy()
        counts[self.id(UNKNOWN)] = self.unknown_in_text
        counts[self.id(END_OF_LINE)] -= self.lines
        return Counts(self.offsets, counts, padded(self.words.data), False, self.lines, self.tokens, self.files)


def build(counts: Counts, min_count: int = 1, max_size: int | None = None) -> Vocabulary:
    """Choose and order the words. What is cut goes to `<unk>`; `<unk>` and `<eos>` are always kept."""
    unknown, end_of_line = (
        position(padded(word), len(word), counts.offsets, counts.letters) for word in (UNKNOWN, END_OF_LINE)
    )
    totals = np.array(counts.counts)
    unknown_in_text = int(totals[unknown])
    distinct = len(totals) - int(totals[unknown] == 0) - int(totals[end_of_line] == 0) + counts.cut_words
    totals[end_of_line] += counts.lines

    ordinary = np.ones(len(totals), bool)
    ordinary[[unknown, end_of_line]] = False
    entries = _chosen(counts, totals, ordinary, min_count, max_size)
    if len(entries) == ALWAYS_KEPT and ordinary.any():
        raise NeglmError(
            f"--min-count {min_count} leaves no words: the most frequent one occurs "
            f"{times(int(totals[ordinary].max()))}; lower --min-count"
        )
    cut_words = int(ordinary.sum()) - (len(entries) - ALWAYS_KEPT) + counts.cut_words
    cut_tokens = int(totals[ordinary].sum()) - int(totals[entries[ordinary[entries]]].sum()) + counts.cut_tokens
    totals[unknown] = max(1, unknown_in_text + cut_tokens)  # so that no probability is ever zero

    order = entries[_by_count(totals[entries])]
    lengths = counts.offsets[order + 1] - counts.offsets[order]
    offsets = np.empty(len(order) + 1, np.int64)
    words = np.empty(int(lengths.sum()), np.uint8)
    gather(order, counts.offsets, counts.letters, offsets, words)
    return Vocabulary(
        words, offsets, totals[order], min_count, max_size, counts.lines, counts.tokens, distinct,
        cut_words, cut_tokens, unknown_in_text, counts.files,
    )  # fmt: skip


def _chosen(
    counts: Counts, totals: np.ndarray, ordinary: np.ndarray, min_count: int, max_size: int | None
) -> np.ndarray:
    """The entries that are kept, in the order of their words' bytes. ordinary: all but `<unk>` and `<eos>`."""
    entries = np.flatnonzero((totals >= min_count) | ~ordinary)
    if not counts.in_byte_order:
        entries = byte_order(entries, counts.offsets, counts.letters)
    if max_size is not None and len(entries) > max_size:
        ranked = entries[_by_count(totals[entries])]
        keep = ~ordinary
        keep[ranked[ordinary[ranked]][: max_size - ALWAYS_KEPT]] = True
        entries = entries[keep[entries]]
    return entries


def put_together(counts: Counts, min_count: int, max_size: int | None, ranks: Ranks) -> Counts:
    """From the counts of each process's words to those that the first one builds the vocabulary from: of the others
    only their number is sent. (The most frequent word of each is sent in any case: `build` may have to name it.)"""
    if ranks.size == 1:
        return counts
    ordinary = np.ones(len(counts.counts), bool)
    for word in (UNKNOWN, END_OF_LINE):
        if (entry := position(padded(word), len(word), counts.offsets, counts.letters)) >= 0:
            ordinary[entry] = False
    keep = ~ordinary
    keep[_chosen(counts, counts.counts, ordinary, min_count, max_size)] = True
    if ordinary.any():
        keep[np.argmax(np.where(ordinary, counts.counts, -1))] = True
    entries = np.flatnonzero(keep)
    lengths = counts.offsets[entries + 1] - counts.offsets[entries]
    offsets, letters = np.empty(len(entries) + 1, np.int64), np.empty(int(lengths.sum()), np.uint8)
    gather(entries, counts.offsets, counts.letters, offsets, letters)
    cut = ranks.allgather((int((~keep).sum()), int(counts.counts[~keep].sum())))
    totals = ranks.gather_arrays(counts.counts[entries])
    offsets = np.append(0, np.cumsum(ranks.gather_arrays(lengths)))
    letters = padded(ranks.gather_arrays(letters).data)
    return replace(
        counts, offsets=offsets, counts=totals, letters=letters, in_byte_order=False,
        cut_words=sum(words for words, _ in cut), cut_tokens=sum(tokens for _, tokens in cut),
    )  # fmt: skip


def merge(parts: Sequence[Counts]) -> Counts:
    """The counts of several texts together: exactly those of counting them at once."""
    if sum(part.tokens + part.lines for part in parts) > LARGEST_TOTAL:
        raise NeglmError(f"the counts add up to more than {LARGEST_TOTAL:,}, which no file can hold")
    table = WordTable()
    for part in parts:
        table.add_words(part.offsets, part.counts, part.letters)
    return Counts(
        table.offsets, table.counts, table.letters, False,
        sum(part.lines for part in parts),
        sum(part.tokens for part in parts),
        [file for part in parts for file in part.files],
    )  # fmt: skip


def load_kernels() -> None:
    """Load what merging and building need from the disk, which takes a while: done best while threads count."""
    table = WordTable()
    for word in (UNKNOWN, END_OF_LINE):
        table.add_word(word, 1)
    build(Counts(table.offsets, table.counts, table.letters, False, 1, 1, []))


def _by_count(totals: np.ndarray) -> np.ndarray:
    """The order of falling counts; what is equal stays in the order it was in.

    Nearly all counts fit into 16 bits, and those NumPy sorts by radix, in linear time; the few others come first.
    """
    order = np.argsort(SIXTEEN_BITS - np.minimum(totals, SIXTEEN_BITS).astype(np.uint16), kind="stable")
    others = order[: np.count_nonzero(totals >= SIXTEEN_BITS)]
    others[:] = others[np.argsort(-totals[others], kind="stable")]
    return order
