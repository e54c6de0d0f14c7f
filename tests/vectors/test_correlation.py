import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from neglm_cli.vectors.similarity import pearson, ranks, spearman

few = st.integers(-3, 3).map(float)  # ties are common
any_number = st.floats(-1e6, 1e6, width=32)
columns = st.integers(2, 30).flatmap(
    lambda n: st.tuples(*[st.lists(few | any_number, min_size=n, max_size=n).map(np.array)] * 2)
)


def test_ties_get_their_average_rank() -> None:
    assert ranks(np.array([10.0, 30, 20, 20, 5, 20])).tolist() == [2, 6, 4, 4, 1, 4]


def test_by_hand() -> None:
    # ranks 1, 2.5, 2.5, 4 and 1, 2, 3, 4: covariance 4.5, squares 4.5 and 5
    assert spearman(np.array([1.0, 7, 7, 9]), np.array([2.0, 3, 4, 5])) == pytest.approx(4.5 / (4.5 * 5) ** 0.5)
    assert pearson(np.array([1.0, 2, 4]), np.array([1.0, 3, 2])) == pytest.approx(0.327326835)
    assert spearman(np.array([1.0, 2, 3]), np.array([9.0, 5, 1])) == -1


@given(columns)
def test_spearman_matches_scipy(pair: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = pair
    np.testing.assert_array_equal(ranks(x), stats.rankdata(x))
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert spearman(x, y) is None
        assert pearson(x, y) is None
    else:
        assert spearman(x, y) == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-9)


def test_pearson_matches_scipy() -> None:
    random = np.random.default_rng(5)
    for scale in (1e-30, 1, 1e30):
        x, y = random.standard_normal((2, 50)) * scale
        assert pearson(x, y + 0.3 * x) == pytest.approx(stats.pearsonr(x, y + 0.3 * x).statistic, abs=1e-12)


def test_undefined_correlation() -> None:
    for values in ([], [1.0], [2.0, 2.0]):
        assert spearman(np.array(values), np.array(values)) is None
        assert pearson(np.array(values), np.array(values)) is None
