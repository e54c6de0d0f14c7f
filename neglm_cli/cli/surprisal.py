"""`neglm score --surprisal`: a table of words or regions, for studies of reading times."""

import csv
import io
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from neglm_cli.cli.console import console
from neglm_cli.cli.queries import as_text
from neglm_cli.store.terminal import standard_output

if TYPE_CHECKING:
    from neglm_cli.cli.reading import Opened

Table = Literal["tsv", "csv", "json"]
REGION_BORDER = b"\t"
DIGITS = 6


class Word(NamedTuple):
    """A word of a sentence; the names are the columns, those of neural-complexity first."""

    word: str  # bytes that are not UTF-8 are escaped as surrogates
    sentid: int
    sentpos: int
    wlen: int
    surp: float
    entropy: float
    entred: float
    freq: int
    oov: int


class Region(NamedTuple):
    """Consecutive words of a sentence."""

    text: str
    sentid: int
    region: int
    tokens: int
    wlen: int
    surp: float
    entropy: float
    entred: float
    freq: int
    oov: int

    @classmethod
    def of(cls, number: int, words: list[Word]) -> "Region":
        """Sum up words; the entropy is that before the first, the frequency that of the rarest."""
        first = words[0]
        return cls(
            " ".join(word.word for word in words), first.sentid, number, len(words), sum(word.wlen for word in words),
            sum(word.surp for word in words), first.entropy, sum(word.entred for word in words),
            min(word.freq for word in words), sum(word.oov for word in words),
        )  # fmt: skip


class SurprisalTable:
    """Writes a table of lines. Sentences are numbered from 0 on, across files."""

    def __init__(
        self, opened: "Opened", table: Table, regions: bool, carry: bool, prepare: Callable[[bytes], bytes]
    ) -> None:
        """prepare: applied to each line, or to each of its regions."""
        from neglm_cli.lm.lines import LineEncoder
        from neglm_cli.lm.surprisal import SurprisalMeter

        model = opened.model
        self._encoder = LineEncoder(model.words)
        self._counts = model.words.counts
        self._meter = SurprisalMeter(opened.scorer, len(model.words), model.end_of_line)
        self._carry, self._regions, self._prepare = carry, regions, prepare
        self._sentences = 0
        self._table = table
        if table != "json":
            standard_output().write(_row((Region if regions else Word)._fields, table))

    def write_text(self, blocks: Iterable[list[bytes]]) -> None:
        """Write the rows of a text."""
        self._meter.reset()
        for texts in blocks:
            self._write_lines(texts)

    def _write_lines(self, texts: list[bytes]) -> None:
        split = [[self._prepare(part) for part in self._parts(text)] for text in texts]
        lines = self._encoder.encode([b" ".join(parts) for parts in split])
        found = self._meter.measure_text(lines) if self._carry else self._meter.measure(lines)
        columns = (lines.tokens, lines.oov, found.surprisal / math.log(2), found.entropy / math.log(2))
        for parts, *of_line in zip(split, *map(lines.split, columns), strict=True):
            words = list(self._words(parts, *(column.tolist() for column in of_line)))
            self._write(list(_regions(parts, words)) if self._regions else words)
            self._sentences += 1
        sys.stdout.flush()

    def _parts(self, text: bytes) -> list[bytes]:
        return text.split(REGION_BORDER) if self._regions else [text]

    def _words(
        self, parts: list[bytes], ids: list[int], oov: list[bool], surprisal: list[float], entropy: list[float]
    ) -> Iterator[Word]:
        """Yield the words of a line, without its end, whose entropy the last word's reduction needs."""
        for i, token in enumerate(token for part in parts for token in part.split()):
            word = token.decode(errors="surrogateescape")
            reduction = max(entropy[i] - entropy[i + 1], 0.0)
            freq = 0 if oov[i] else int(self._counts[ids[i]])
            yield Word(word, self._sentences, i, len(word), surprisal[i], entropy[i], reduction, freq, int(oov[i]))

    def _write(self, rows: "list[Word] | list[Region]") -> None:
        for row in rows:
            if self._table == "json":
                console.json_line({name: _in_json(value) for name, value in row._asdict().items()})
            else:
                standard_output().write(_row([_shown(value) for value in row], self._table))


def _regions(parts: list[bytes], words: list[Word]) -> Iterator[Region]:
    """Yield the regions of a line that have words."""
    first = 0
    for number, part in enumerate(parts):
        last = first + len(part.split())
        if last > first:
            yield Region.of(number, words[first:last])
        first = last


def _in_json(value: Any) -> Any:
    if isinstance(value, str):
        return as_text(value.encode(errors="surrogateescape"))
    return round(value, DIGITS) if isinstance(value, float) else value


def _shown(value: Any) -> str:
    return f"{value:.{DIGITS}f}" if isinstance(value, float) else str(value)


def _row(values: Any, table: Table) -> bytes:
    """Format a row. Quotation marks are quoted in both tables: readers of TSV take them for the start of a string."""
    line = io.StringIO()
    csv.writer(line, delimiter="\t" if table == "tsv" else ",", lineterminator="\n").writerow(values)
    return line.getvalue().encode(errors="surrogateescape")
