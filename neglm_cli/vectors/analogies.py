"""Analogies: a is to b as c is to which word?

    3CosAdd  cos(x, b − a + c)                                    Mikolov et al. 2013
    3CosMul  cos⁺(x, b) · cos⁺(x, c) / (cos⁺(x, a) + ε)           Levy & Goldberg 2014

with unit vectors and cos⁺ = (cos + 1) / 2, between 0 and 1. The words of the question are excluded.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from neglm_cli.errors import NeglmError, shown
from neglm_cli.vectors.lexicon import UNKNOWN, Lexicon, all_known, lower, numbered_lines
from neglm_cli.vectors.lookup import Lookup
from neglm_cli.vectors.neighbors import CosineIndex, Neighbor, top_scores

Method = Literal["add", "mul"]
METHODS: tuple[Method, ...] = ("add", "mul")
EPSILON = np.float32(0.001)
CANDIDATES, QUESTIONS = 4096, 128  # per block
SECTION = b":"
SYNTACTIC = b"gram"  # prefix of the names of syntactic sections
UNNAMED = b"unnamed"  # questions before the first section


def answers(words: CosineIndex, question: Sequence[int], method: Method, top: int) -> list[Neighbor]:
    """Return the best answers to one question (a, b, c)."""
    return answers_to(words, words.units(list(question)), method, top, question)


def answers_to(
    words: CosineIndex, question: np.ndarray, method: Method, top: int, excluded: Sequence[int] = ()
) -> list[Neighbor]:
    """Return the best answers to one question. question: unit vectors of a, b and c, float32 (3, D); excluded: ids."""
    a, b, c = question
    if method == "add":
        return top_scores(words.cosines(b - a + c), top, excluded)
    cosines = np.stack([words.cosines(vector) for vector in (a, b, c)])
    return top_scores(scores(cosines, np.array([[0, 1, 2]]), method)[0], top, excluded)


def scores(cosines: np.ndarray, questions: np.ndarray, method: Method) -> np.ndarray:
    """Return the scores (Q, X) of X candidates, from their cosines (W, X) with W words. questions (Q, 3): rows of
    these.

    3CosAdd is not divided by the norm of b − a + c, which is the same for all candidates.
    """
    return _scores(*_parts(cosines, method), questions)


def _parts(cosines: np.ndarray, method: Method) -> tuple[np.ufunc, np.ndarray, np.ndarray]:
    """Return the operation that combines the terms of a score, the terms for a, and the terms for b and c."""
    if method == "add":
        return np.add, -cosines, cosines
    positive = (cosines + 1) / 2
    return np.multiply, 1 / (positive + EPSILON), positive


def _scores(combine: np.ufunc, against: np.ndarray, towards: np.ndarray, questions: np.ndarray) -> np.ndarray:
    a, b, c = questions.T
    result: np.ndarray = towards[b]
    combine(result, towards[c], out=result)
    return combine(result, against[a], out=result)


def best_answers(
    words: np.ndarray, questions: np.ndarray, method: Method, advance: Callable[[int], None] = lambda count: None,
    composed: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    """Return the best answer to each question, int64 (Q,). words: unit vectors (V, D); questions: ids (Q, 3); advance:
    called with the number of candidates scored; composed: unit vectors of further words, with ids from V on, which are
    no candidates.

    Questions share words: one matrix product computes the cosines of all W words with a block of candidates, and every
    score combines three of these. Blocks bound memory.
    """
    asked, rows = np.unique(questions, return_inverse=True)
    rows = rows.reshape(questions.shape)
    asked_words = words[asked[asked < len(words)]]
    if composed is not None:
        asked_words = np.concatenate([asked_words, composed[asked[asked >= len(words)] - len(words)]])
    highest = np.full(len(questions), -np.inf, np.float32)
    found = np.full(len(questions), -1, np.int64)
    for start in range(0, len(words), CANDIDATES):
        cosines = asked_words @ words[start : start + CANDIDATES].T  # (W, CANDIDATES)
        parts = _parts(cosines, method)
        for first in range(0, len(questions), QUESTIONS):
            block = slice(first, first + QUESTIONS)
            block_scores = _scores(*parts, rows[block])  # (QUESTIONS, CANDIDATES)
            _exclude(block_scores, questions[block] - start)
            winner = block_scores.argmax(axis=1)
            score = block_scores[np.arange(len(block_scores)), winner]
            better = score > highest[block]
            highest[block][better] = score[better]
            found[block][better] = winner[better] + start
        advance(cosines.shape[1])
    return found


def _exclude(block_scores: np.ndarray, columns: np.ndarray) -> None:
    """Exclude the words of a question that are in this block of candidates."""
    question, word = np.nonzero((columns >= 0) & (columns < block_scores.shape[1]))
    block_scores[question, columns[question, word]] = -np.inf


@dataclass(frozen=True)
class Section:
    name: bytes
    questions: list[tuple[bytes, ...]] = field(default_factory=list)  # a is to b as c is to d

    @property
    def syntactic(self) -> bool:
        return self.name.startswith(SYNTACTIC)


@dataclass(frozen=True)
class Tally:
    """Counts of questions. Questions with an unknown word are skipped, unless its vector is composed."""

    questions: int
    used: int
    correct: dict[Method, int]

    def accuracy(self, method: Method) -> float | None:
        """Return the fraction of correct answers, without skipped questions."""
        return self.correct[method] / self.used if self.used else None

    def accuracy_all(self, method: Method) -> float | None:
        """Return the fraction of correct answers; skipped questions count as wrong."""
        return self.correct[method] / self.questions if self.questions else None


def read_sections(path: str) -> list[Section]:
    """Read lines of four words, in sections that start with lines such as `: family`."""
    sections: list[Section] = []
    for where, line in numbered_lines(path):
        if line.startswith(SECTION):
            name = line.removeprefix(SECTION).strip()
            if not name:
                raise NeglmError(f"{where}: expected the name of a section after the colon")
            sections.append(Section(name))
            continue
        words = tuple(line.split())
        if len(words) != 4:
            raise NeglmError(f"{where}: expected four words, or a colon and the name of a section")
        if not sections:
            sections.append(Section(UNNAMED))
        sections[-1].questions.append(words)
    if not any(section.questions for section in sections):
        raise NeglmError(f"{shown(path)} has no questions: expected lines of four words")
    return sections


def count_correct(
    sections: list[Section], lexicon: Lexicon, words: CosineIndex, methods: Iterable[Method],
    advance: Callable[[int], None] = lambda count: None, lookup: Lookup | None = None,
) -> list[Tally]:  # fmt: skip
    """Answer all questions, with the lexicon's words as candidates. Return a tally for each section. advance: called
    with the number of candidates scored, for each method; lookup: composes the vectors of words that are not in the
    vocabulary, in questions, not as answers."""
    questions = [question for section in sections for question in section.questions]
    indices = lexicon.indices(questions)
    composed = _compose(questions, indices, lexicon, lookup)
    used = all_known(indices)
    units = words.units(lexicon.ids)
    right: dict[Method, np.ndarray] = {}
    for method in methods:
        right[method] = np.zeros(len(indices), bool)
        best = best_answers(units, indices[used, :3], method, advance, composed)
        right[method][used] = best == indices[used, 3]
    result = []
    start = 0
    for section in sections:
        part = slice(start, start + len(section.questions))
        correct = {method: int(answered[part].sum()) for method, answered in right.items()}
        result.append(Tally(len(section.questions), int(used[part].sum()), correct))
        start = part.stop
    return result


def composed_words(sections: list[Section], lexicon: Lexicon, lookup: Lookup) -> int:
    """Return the number of distinct words of all sections whose vectors are composed."""
    questions = [question for section in sections for question in section.questions]
    indices = lexicon.indices(questions)
    _compose(questions, indices, lexicon, lookup)
    asked = indices[all_known(indices), :3]
    return len(np.unique(asked[asked >= len(lexicon.ids)]))


def _compose(
    questions: list[tuple[bytes, ...]], indices: np.ndarray, lexicon: Lexicon, lookup: Lookup | None
) -> np.ndarray | None:
    """Compose the vectors of unknown words a, b and c: unit vectors, or None. Their indices, which follow those of the
    lexicon, replace UNKNOWN in `indices`, unless the answer d is unknown: it could not be found."""
    if lookup is None or lookup.subwords is None:
        return None
    found: dict[bytes, int | None] = {}
    vectors: list[np.ndarray] = []
    for row, column in zip(*np.nonzero(indices[:, :3] == UNKNOWN), strict=True):
        word = lower(questions[row][column]) if lexicon.fold_case else questions[row][column]
        if indices[row, 3] == UNKNOWN:
            continue
        if word not in found:
            vector = None if lexicon.words.id(word) >= 0 else lookup.compose(word)  # excluded by --max-vocab
            found[word] = None if vector is None else len(lexicon.ids) + len(vectors)
            if vector is not None:
                vectors.append(vector)
        if (index := found[word]) is not None:
            indices[row, column] = index
    if not vectors:
        return None
    rows = np.array(vectors)
    return CosineIndex.of(rows, "").units(np.arange(len(rows)))


def sum_tallies(parts: Iterable[Tally], methods: Iterable[Method]) -> Tally:
    """Sum tallies."""
    listed = list(parts)
    return Tally(
        sum(part.questions for part in listed),
        sum(part.used for part in listed),
        {method: sum(part.correct[method] for part in listed) for method in methods},
    )
