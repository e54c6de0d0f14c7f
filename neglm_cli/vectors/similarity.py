"""Similarity of words: how well cosines rank pairs of words as people do."""

import math
from dataclasses import dataclass

import numpy as np

from neglm_cli.errors import NeglmError, shown
from neglm_cli.vectors.directions import Directions
from neglm_cli.vectors.lexicon import Lexicon, known
from neglm_cli.vectors.questionfile import numbered_lines
from neglm_cli.vectors.ranks import pearson, spearman

COMMENT = b"#"


@dataclass(frozen=True)
class JudgedPairs:
    words: list[tuple[bytes, ...]]  # pairs
    scores: np.ndarray  # float64: how similar people find them

    def __len__(self) -> int:
        return len(self.words)


@dataclass(frozen=True)
class Correlations:
    """Of cosines with people's scores, for known pairs, and for all with a cosine of 0 for unknown ones."""

    pairs: int
    used: int
    spearman: float | None
    pearson: float | None
    spearman_all: float | None
    pearson_all: float | None


def read_pairs(path: str) -> JudgedPairs:
    """Lines of word, word, score, between them tabs, commas or blanks; what follows the score is ignored.

    Lines that start with # are comments; a first line without a number is a header.
    """
    words: list[tuple[bytes, ...]] = []
    scores: list[float] = []
    header_possible = True
    for where, line in numbered_lines(path):
        if line.startswith(COMMENT):
            continue
        fields = _fields(line)
        score = _number(fields[2]) if len(fields) > 2 else None
        if score is not None and fields[0] and fields[1]:
            words.append((fields[0], fields[1]))
            scores.append(score)
        elif not header_possible or any(_number(field) is not None for field in fields):
            raise NeglmError(f"{where}: expected two words and a score, with tabs, commas or blanks between them")
        header_possible = False
    if not words:
        raise NeglmError(f"{shown(path)} has no pairs of words: expected lines of two words and a score")
    return JudgedPairs(words, np.array(scores))


def correlations(pairs: JudgedPairs, lexicon: Lexicon, words: Directions) -> Correlations:
    places = lexicon.places(pairs.words)
    used = known(places)
    cosines = np.zeros(len(pairs), np.float32)
    first, second = (words.units(lexicon.ids[column]) for column in places[used].T)
    cosines[used] = np.einsum("pd,pd->p", first, second)
    return Correlations(
        pairs=len(pairs),
        used=int(used.sum()),
        spearman=spearman(cosines[used], pairs.scores[used]),
        pearson=pearson(cosines[used], pairs.scores[used]),
        spearman_all=spearman(cosines, pairs.scores),
        pearson_all=pearson(cosines, pairs.scores),
    )


def _fields(line: bytes) -> list[bytes]:
    """Tabs separate, if there are any; else commas; else blanks."""
    for separator in (b"\t", b","):
        if separator in line:
            return [field.strip() for field in line.split(separator)]
    return line.split()


def _number(field: bytes) -> float | None:
    try:
        number = float(field)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
