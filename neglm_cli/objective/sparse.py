"""A sparse matrix times a dense one."""

from dataclasses import dataclass

import numpy as np

from neglm_cli.kernels import kernel
from neglm_cli.text.parallel import ordered_map

BLOCKS = 64  # of rows, for the threads


@kernel
def multiply_rows(first, last, starts, columns, values, dense, product):
    """Rows first to last of the product."""
    for row in range(first, last):
        for d in range(dense.shape[1]):
            product[row, d] = 0.0
        for cell in range(starts[row], starts[row + 1]):
            column, value = columns[cell], values[cell]
            for d in range(dense.shape[1]):
                product[row, d] += value * dense[column, d]


@dataclass(frozen=True, eq=False)
class Sparse:
    """Row x has values[starts[x]:starts[x+1]] at columns[starts[x]:starts[x+1]]; the other cells are 0."""

    starts: np.ndarray  # int64 (V+1,)
    columns: np.ndarray  # int32 (N,)
    values: np.ndarray  # float64 (N,)
    width: int  # C

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.starts) - 1, self.width

    def transposed(self) -> "Sparse":
        rows = np.repeat(np.arange(len(self.starts) - 1, dtype=np.int32), np.diff(self.starts))
        order = np.argsort(self.columns, kind="stable")
        starts = np.concatenate(([0], np.cumsum(np.bincount(self.columns, minlength=self.width))))
        return Sparse(starts, rows[order], self.values[order], len(self.starts) - 1)

    def dense(self) -> np.ndarray:
        matrix = np.zeros(self.shape)
        matrix[np.repeat(np.arange(self.shape[0]), np.diff(self.starts)), self.columns] = self.values
        return matrix

    def times(self, matrix: np.ndarray, threads: int) -> np.ndarray:
        """The product with a dense matrix, float64 (C, d); float64 (V, d)."""
        product = np.empty((self.shape[0], matrix.shape[1]))
        # equal numbers of cells, not of rows: the first words are the frequent ones
        edges = np.searchsorted(self.starts, np.linspace(0, self.starts[-1], BLOCKS + 1)[1:-1])
        edges = np.concatenate(([0], edges, [self.shape[0]]))
        dense = np.ascontiguousarray(matrix)

        def work(block: int) -> None:
            multiply_rows(edges[block], edges[block + 1], self.starts, self.columns, self.values, dense, product)

        for _ in ordered_map(work, range(BLOCKS), threads):
            pass
        return product
