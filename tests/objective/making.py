"""Small joint distributions, and the objective in plain NumPy: dense, and close to the formulas."""

import numpy as np

from neglm_cli.objective.joint import Joint
from neglm_cli.text.pairs import Pairs
from neglm_cli.text.word_index import WordIndex


def pairs_of_table(table: np.ndarray) -> Pairs:
    """Return pairs with these counts, (V, C); no row or column may be empty."""
    rows, columns = np.nonzero(table)
    words = WordIndex.of([b"x%d" % i for i in range(len(table))], table.sum(1))
    contexts = WordIndex.of([b"y%d" % i for i in range(table.shape[1])], table.sum(0))
    return Pairs(words, contexts, rows, columns, table[rows, columns])


def random_table(seed: int, words: int, contexts: int, empty: float = 0.0) -> np.ndarray:
    """Return random counts with a fraction `empty` of zeros; every row and column has a nonzero count."""
    random = np.random.default_rng(seed)
    table = random.integers(1, 100, (words, contexts)) ** 2
    table[random.random((words, contexts)) < empty] = 0
    table[np.arange(max(words, contexts)) % words, np.arange(max(words, contexts)) % contexts] += 1
    return table


class Dense:
    """p(x,y), p(x) and p_α(y) as arrays, and S and KL as the paper writes them."""

    def __init__(self, table: np.ndarray, k: int, noise_alpha: float) -> None:
        self.k = k
        self.p = table / table.sum()
        self.p_x = self.p.sum(1, keepdims=True)
        self.p_y = self.p.sum(0, keepdims=True)
        self.noise = self.p_y**noise_alpha / (self.p_y**noise_alpha).sum()
        self.q = (self.p + k * self.p_x * self.noise) / (k + 1)
        with np.errstate(divide="ignore"):
            self.pmi = np.log(self.p / (self.p_x * self.noise)) - np.log(k)

    def score(self, m: np.ndarray) -> float:
        """S(m), also where m is −∞ and p(x,y) is 0."""
        with np.errstate(invalid="ignore"):
            observed = np.where(self.p > 0, self.p * -np.logaddexp(0, -m), 0)
        return float((observed + self.k * self.p_x * self.noise * -np.logaddexp(0, m)).sum() / (self.k + 1))

    def divergences(self, m: np.ndarray) -> np.ndarray:
        """q Σ_z p_pmi(z|x,y) log p_pmi(z|x,y) / p_m(z|x,y), for each cell."""
        true = self.p / (self.p + self.k * self.p_x * self.noise)
        with np.errstate(divide="ignore", invalid="ignore"):
            one = np.where(true > 0, true * (np.log(true) + np.logaddexp(0, -m)), 0)
        return self.q * (one + (1 - true) * (np.log(1 - true) + np.logaddexp(0, m)))


def joint_of(table: np.ndarray, k: int, noise_alpha: float) -> Joint:
    return Joint.of(pairs_of_table(table), k, noise_alpha)
