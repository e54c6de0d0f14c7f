"""Analogies: a is to b as c is to which word?

    3CosAdd  cos(x, b − a + c)                                    Mikolov et al. 2013
    3CosMul  cos⁺(x, b) · cos⁺(x, c) / (cos⁺(x, a) + ε)           Levy & Goldberg 2014

with vectors of unit length and cos⁺ = (cos + 1) / 2, which lies between 0 and 1. The words of the question are
no answers.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from neglm_cli.vectors.directions import Directions
from neglm_cli.vectors.neighbours import Neighbour, best

Method = Literal["add", "mul"]
METHODS: tuple[Method, ...] = ("add", "mul")
EPSILON = np.float32(0.001)
CANDIDATES, QUESTIONS = 4096, 128  # in a block


def answers(words: Directions, question: Sequence[int], method: Method, top: int) -> list[Neighbour]:
    """The best answers to the question of a, b and c."""
    a, b, c = words.units(list(question))
    if method == "add":
        return best(words.cosines(b - a + c), top, question)
    cosines = np.stack([words.cosines(vector) for vector in (a, b, c)])
    return best(scores(cosines, np.array([[0, 1, 2]]), method)[0], top, question)


def scores(cosines: np.ndarray, questions: np.ndarray, method: Method) -> np.ndarray:
    """The scores (Q, X) of X candidates, from the cosines (W, X) of words with them; `questions` (Q, 3) are rows.

    Those of 3CosAdd have a factor that is the same for all candidates: the length of b − a + c.
    """
    return _scores(*_parts(cosines, method), questions)


def _parts(cosines: np.ndarray, method: Method) -> tuple[np.ufunc, np.ndarray, np.ndarray]:
    """A score is the sum, or the product, of what a contributes and of what b and c do."""
    if method == "add":
        return np.add, -cosines, cosines
    positive = (cosines + 1) / 2
    return np.multiply, 1 / (positive + EPSILON), positive


def _scores(combine: np.ufunc, against: np.ndarray, towards: np.ndarray, questions: np.ndarray) -> np.ndarray:
    a, b, c = questions.T
    result: np.ndarray = towards[b]
    combine(result, towards[c], out=result)
    return combine(result, against[a], out=result)


def first_answers(
    words: np.ndarray, questions: np.ndarray, method: Method, advance: Callable[[int], None] = lambda count: None
) -> np.ndarray:
    """The best answer to each question, int64 (Q,); `words` are unit vectors (V, D), `questions` ids (Q, 3). `advance`
    is told how many candidates have been looked at.

    Questions share words: the cosines of all words in them (W) with a block of candidates are one product, and
    every score is made of three of these. Memory is bounded by that block.
    """
    asked, rows = np.unique(questions, return_inverse=True)
    rows = rows.reshape(questions.shape)
    asked_words = words[asked]
    highest = np.full(len(questions), -np.inf, np.float32)
    found = np.full(len(questions), -1, np.int64)
    for start in range(0, len(words), CANDIDATES):
        cosines = asked_words @ words[start : start + CANDIDATES].T  # (W, CANDIDATES)
        parts = _parts(cosines, method)
        for first in range(0, len(questions), QUESTIONS):
            block = slice(first, first + QUESTIONS)
            reached = _scores(*parts, rows[block])  # (QUESTIONS, CANDIDATES)
            _exclude(reached, questions[block] - start)
            winner = reached.argmax(axis=1)
            score = reached[np.arange(len(reached)), winner]
            better = score > highest[block]
            highest[block][better] = score[better]
            found[block][better] = winner[better] + start
        advance(cosines.shape[1])
    return found


def _exclude(reached: np.ndarray, columns: np.ndarray) -> None:
    """The words of a question, if they are in this block of candidates, are no answers."""
    question, word = np.nonzero((columns >= 0) & (columns < reached.shape[1]))
    reached[question, columns[question, word]] = -np.inf
