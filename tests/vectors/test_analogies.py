import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neglm_cli.vectors import analogies
from neglm_cli.vectors.analogies import METHODS, Method, answers, best_answers
from neglm_cli.vectors.neighbors import CosineIndex


def reference(matrix: np.ndarray, question: list[int], method: Method) -> np.ndarray:
    """Compute the scores of all words, in double precision, by the papers' formulas."""
    units = matrix.astype(float) / np.linalg.norm(matrix.astype(float), axis=1, keepdims=True)
    a, b, c = units[question]
    if method == "add":
        target = b - a + c
        scores = units @ target / np.linalg.norm(target)
    else:
        scores = (1 + units @ b) / 2 * ((1 + units @ c) / 2) / ((1 + units @ a) / 2 + 0.001)
    scores[question] = -np.inf
    return scores


def test_by_hand() -> None:
    """man (1, 0), king (1, 1)/√2, woman (0, 1): b − a + c is king with more of woman."""
    matrix = np.array([[1, 0], [5, 5], [0, 1], [-1, 0], [-3, 4]], np.float32)
    words = CosineIndex.of(matrix, "file")
    half = 0.5**0.5
    target = np.array([half - 1, half + 1])
    length = np.hypot(*target)
    found = answers(words, (0, 1, 2), "add", 10)
    assert [id_ for id_, _ in found] == [4, 3]
    assert [score for _, score in found] == pytest.approx(
        [(-0.6 * target[0] + 0.8 * target[1]) / length, -target[0] / length]
    )
    # Of (−3, 4): cosines 0.8 with woman, (−0.6 + 0.8) √½ with king, −0.6 with man. Of (−1, 0): 0, −√½, −1.
    found = answers(words, (0, 1, 2), "mul", 10)
    assert [id_ for id_, _ in found] == [3, 4]
    assert [score for _, score in found] == pytest.approx(
        [(1 - half) / 2 * 0.5 / 0.001, (1 + 0.2 * half) / 2 * 0.9 / 0.201], rel=1e-5
    )


@given(st.integers(0, 1000), st.sampled_from(METHODS))
def test_answers_match_the_formula(seed: int, method: Method) -> None:
    random = np.random.default_rng(seed)
    matrix = random.standard_normal((random.integers(4, 60), random.integers(2, 9))).astype(np.float32)
    question = random.integers(0, len(matrix), 3).tolist()
    expected = reference(matrix, question, method)
    found = answers(CosineIndex.of(matrix, "file"), question, method, len(matrix))
    assert len(found) == len(matrix) - len(set(question))
    for id_, score in found:
        assert score == pytest.approx(expected[id_], rel=2e-3, abs=1e-5)  # a cosine near -1 is divided by almost ε
    scores = [score for _, score in found]
    assert scores == sorted(scores, reverse=True)


@given(st.integers(0, 1000), st.sampled_from(METHODS))
def test_many_questions_in_blocks_are_answered_like_one(seed: int, method: Method) -> None:
    random = np.random.default_rng(seed)
    matrix = random.standard_normal((random.integers(4, 60), random.integers(2, 9))).astype(np.float32)
    questions = random.integers(0, len(matrix), (random.integers(1, 30), 3))
    words = CosineIndex.of(matrix, "file")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(analogies, "CANDIDATES", 7)
        patch.setattr(analogies, "QUESTIONS", 5)
        found = best_answers(words.units(np.arange(len(matrix))), questions, method)
    for question, answer in zip(questions.tolist(), found.tolist(), strict=True):
        scores = reference(matrix, question, method)
        assert answer not in question
        assert scores[answer] == pytest.approx(scores.max(), rel=2e-3, abs=1e-5)


def test_ties_go_to_the_first_word() -> None:
    matrix = np.array([[1, 0], [1, 1], [0, 1], *[[-1, 2]] * 40], np.float32)
    words = CosineIndex.of(matrix, "file")
    questions = np.array([[0, 1, 2]])
    for method in METHODS:
        assert best_answers(words.units(np.arange(len(matrix))), questions, method).tolist() == [3]
        assert [id_ for id_, _ in answers(words, (0, 1, 2), method, 3)] == [3, 4, 5]


def test_no_answer_if_all_words_are_in_the_question() -> None:
    units = np.eye(3, dtype=np.float32)
    assert best_answers(units, np.array([[0, 1, 2]]), "add").tolist() == [-1]
    assert best_answers(units, np.empty((0, 3), np.int64), "add").tolist() == []
