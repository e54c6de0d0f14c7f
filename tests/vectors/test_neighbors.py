import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from neglm_cli.errors import NeglmError
from neglm_cli.vectors.neighbors import CosineIndex, nearest, top_scores

small = st.integers(-3, 3).map(float)  # so that ties, zeros and opposite vectors are common
matrices = st.tuples(st.integers(1, 12), st.integers(1, 5)).flatmap(
    lambda shape: arrays(np.float32, shape, elements=small)
)


def brute_force(matrix: np.ndarray, query: list[int], top: int) -> list[tuple[int, float]]:
    """Compute one pair at a time, in double precision."""
    rows = [[float(x) for x in row] for row in matrix]
    units = [[x / (sum(y * y for y in row) ** 0.5 or 1) for x in row] for row in rows]
    query_sum = [sum(units[i][d] for i in query) for d in range(matrix.shape[1])]
    length = sum(x * x for x in query_sum) ** 0.5 or 1
    cosines = [sum(x * y for x, y in zip(row, query_sum, strict=True)) / length for row in units]
    order = sorted((i for i in range(len(rows)) if i not in query), key=lambda i: (-cosines[i], i))
    return [(i, cosines[i]) for i in order[:top]]


@given(matrices, st.data())
def test_neighbors_match_brute_force(matrix: np.ndarray, data: st.DataObject) -> None:
    query = data.draw(st.lists(st.integers(0, len(matrix) - 1), min_size=1, max_size=3))
    top = data.draw(st.integers(1, 15))
    words = CosineIndex.of(matrix, "file")
    found = nearest(words, words.units(query), top, query)
    expected = brute_force(matrix, query, top)
    # If two cosines differ by no more than rounding, the order is that of float32.
    np.testing.assert_allclose([score for _, score in found], [cosine for _, cosine in expected], atol=2e-6)
    everything = dict(brute_force(matrix, query, len(matrix)))
    assert len({id_ for id_, _ in found}) == len(found)
    for id_, score in found:
        assert score == pytest.approx(everything[id_], abs=2e-6)


def test_by_hand() -> None:
    matrix = np.array([[2, 0], [3, 4], [0, 5], [-1, 0], [0, 0]], np.float32)
    words = CosineIndex.of(matrix, "file")
    found = nearest(words, words.units([0]), 10, [0])
    assert [id_ for id_, _ in found] == [1, 2, 4, 3]
    assert [score for _, score in found] == pytest.approx([0.6, 0, 0, -1])
    # (1, 0) + (0, 1), of length √2: the vectors' own lengths, 2 and 5, have no effect
    ((id_, score),) = nearest(words, words.units([0, 2]), 1, [0, 2])
    assert id_ == 1
    assert score == pytest.approx(1.4 / 2**0.5)


def test_equal_vectors_are_in_order_of_ids() -> None:
    random = np.random.default_rng(3)
    matrix = random.standard_normal((3000, 37)).astype(np.float32)
    twins = sorted(random.choice(np.arange(1, 3000), 50, replace=False).tolist())
    matrix[twins] = matrix[0]
    words = CosineIndex.of(matrix, "file")
    found = nearest(words, words.units([0]), 20, [0])
    assert [id_ for id_, _ in found] == twins[:20]
    assert len({score for _, score in found}) == 1


@given(st.lists(small, max_size=20), st.integers(1, 25), st.data())
def test_top_scores_are_sorted(values: list[float], top: int, data: st.DataObject) -> None:
    excluded = data.draw(st.lists(st.integers(0, len(values) - 1))) if values else []
    expected = sorted((i for i in range(len(values)) if i not in excluded), key=lambda i: (-values[i], i))[:top]
    assert top_scores(np.array(values, np.float32), top, excluded) == [(i, values[i]) for i in expected]


def test_no_context_is_excluded() -> None:
    words = CosineIndex.of(np.array([[1, 0], [0, 1]], np.float32), "file")
    contexts = CosineIndex.of(np.array([[0, 2], [4, 3], [1, 0]], np.float32), "file")
    found = nearest(contexts, words.units([0]), 2)
    assert [id_ for id_, _ in found] == [2, 1]
    assert [score for _, score in found] == pytest.approx([1, 0.8])


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_values_that_are_not_finite(number: float) -> None:
    matrix = np.ones((3, 2), np.float32)
    matrix[1, 1] = number
    with pytest.raises(NeglmError, match="a file: vector 1 "):
        CosineIndex.of(matrix, "a file")


def test_the_vectors_are_not_copied() -> None:
    matrix = np.ones((3, 2), np.float32)
    assert CosineIndex.of(matrix, "file").vectors is matrix


def test_very_small_and_large_values() -> None:
    """Their squares overflow float32, their cosines do not."""
    for scale in (1e-30, 1e30):
        matrix = np.array([[scale, 0], [scale, scale], [0, -scale]], np.float32)
        index = CosineIndex.of(matrix, "file")
        np.testing.assert_allclose(index.cosines(index.units([0])[0]), [1, np.sqrt(0.5), 0], atol=1e-6)
