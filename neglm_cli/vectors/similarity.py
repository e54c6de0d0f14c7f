"""Word similarity: correlation of cosines with human ratings."""

import math
from dataclasses import dataclass

import numpy as np

from neglm_cli.errors import NeglmError, shown
from neglm_cli.vectors.lexicon import UNKNOWN, Lexicon, all_known, lower, numbered_lines
from neglm_cli.vectors.lookup import Lookup, units
from neglm_cli.vectors.neighbors import CosineIndex

COMMENT = b"#"


@dataclass(frozen=True)
class RatedPairs:
    """A test set of word pairs."""

    words: list[tuple[bytes, ...]]  # pairs
    scores: np.ndarray  # float64: human ratings of their similarity

    def __len__(self) -> int:
        return len(self.words)


@dataclass(frozen=True)
class Correlations:
    """Correlations of cosines with human ratings: of known pairs, and of all pairs, where unknown ones have cosine
    0."""

    pairs: int
    used: int
    spearman: float | None
    pearson: float | None
    spearman_all: float | None
    pearson_all: float | None
    composed_words: int = 0  # distinct words that are not in the vocabulary, but have vectors


def read_pairs(path: str) -> RatedPairs:
    """Read lines of word, word, score, separated by tabs, commas or blanks; further fields are ignored.

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
            raise NeglmError(f"{where}: expected two words and a score, separated by tabs, commas or blanks")
        header_possible = False
    if not words:
        raise NeglmError(f"{shown(path)} has no pairs of words: expected lines of two words and a score")
    return RatedPairs(words, np.array(scores))


def correlations(pairs: RatedPairs, lexicon: Lexicon, words: CosineIndex, lookup: Lookup | None = None) -> Correlations:
    """Compare with human ratings. lookup: composes the vectors of words that are not in the vocabulary."""
    indices = lexicon.indices(pairs.words)
    used = all_known(indices)
    cosines = np.zeros(len(pairs), np.float32)
    first, second = (words.units(lexicon.ids[column]) for column in indices[used].T)
    cosines[used] = np.einsum("pd,pd->p", first, second)
    composed: set[bytes] = set()
    if lookup is not None and lookup.subwords is not None:
        for row in np.flatnonzero(~used).tolist():
            spelled = [lower(word) if lexicon.fold_case else word for word in pairs.words[row]]
            unknown = [word for word, index in zip(spelled, indices[row], strict=True) if index == UNKNOWN]
            found = lookup.find(
                [
                    word if word in unknown else lexicon.word(index)
                    for word, index in zip(spelled, indices[row], strict=True)
                ]
            )
            if isinstance(found, bytes) or any(lexicon.words.id(word) >= 0 for word in unknown):
                continue  # too short for n-grams, or excluded by --max-vocab
            one, other = units(found)
            cosines[row], used[row] = one @ other, True
            composed |= set(unknown)
    return Correlations(
        pairs=len(pairs),
        used=int(used.sum()),
        spearman=spearman(cosines[used], pairs.scores[used]),
        pearson=pearson(cosines[used], pairs.scores[used]),
        spearman_all=spearman(cosines, pairs.scores),
        pearson_all=pearson(cosines, pairs.scores),
        composed_words=len(composed),
    )


def _fields(line: bytes) -> list[bytes]:
    """Split a line at tabs if there are any, else at commas, else at blanks."""
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


def ranks(values: np.ndarray) -> np.ndarray:
    """Compute the rank of each value, from 1; ties get their average rank."""
    _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(sizes)
    return (last - (sizes - 1) / 2)[group]


def spearman(x: np.ndarray, y: np.ndarray) -> float | None:
    """Compute Spearman's rank correlation."""
    return pearson(ranks(x), ranks(y))


def pearson(x: np.ndarray, y: np.ndarray) -> float | None:
    """Compute Pearson's correlation; None for fewer than two values, or if one side is constant."""
    if len(x) < 2 or (x == x[0]).all() or (y == y[0]).all():
        return None
    x, y = _standardize(x), _standardize(y)
    return float(np.clip(x @ y / np.sqrt((x @ x) * (y @ y)), -1, 1))


def _standardize(values: np.ndarray) -> np.ndarray:
    """Center, and scale to magnitudes near 1, so that squares neither overflow nor underflow."""
    values = values.astype(np.float64)
    values = values / np.abs(values).max()
    values = values - values.mean()
    return values / np.abs(values).max()
