"""Kernels over the cells of a score matrix: S(m), its gradient, and the terms of the divergence."""

import math
from typing import NamedTuple

import numpy as np

from neglm_cli.kernels import inlined, kernel


class Cells(NamedTuple):
    """The observed cells of a joint distribution, by row, and its noise: see `Joint`."""

    starts: np.ndarray  # int64 (V+1,): row x has the cells starts[x] to starts[x+1]
    columns: np.ndarray  # int32 (N,)
    observed: np.ndarray  # float64 (N,)
    noise_x: np.ndarray  # float64 (V,)
    noise: np.ndarray  # float64 (C,)


class Largest(NamedTuple):
    """The largest values, descending, and their cells."""

    values: np.ndarray  # float64
    cells: np.ndarray  # int64: row · C + column


@inlined
def softplus(score):
    """Compute log(1 + e^m) = −log σ(−m), for any m."""
    return max(score, 0.0) + math.log1p(math.exp(-abs(score)))


@inlined
def divergence(observed, noise, score):
    """Return a cell's term of KL(p_pmi ‖ p_m): Σ_z q p_pmi(z) log p_pmi(z) / p_m(z); q p_pmi(z) is `observed` or
    `noise`.

    Clamped at 0 because of rounding.
    """
    q = observed + noise
    outcome = observed * (math.log(observed / q) + softplus(-score))
    if noise > 0.0:
        outcome += noise * (math.log(noise / q) + softplus(score))
    return max(outcome, 0.0)


@inlined
def insert(largest, value, cell):
    """Insert a value into a sorted list, after equal values."""
    values, cells = largest
    i = values.size - 1
    while i > 0 and values[i - 1] < value:
        values[i], cells[i] = values[i - 1], cells[i - 1]
        i -= 1
    values[i], cells[i] = value, cell


@kernel
def all_cells(scores, first, cells, by_word, by_context, largest):
    """Sum all cells of rows `first` and following, with scores (rows, C). Return their part of S(m).

    Add their divergence to by_word and by_context, and the largest terms to `largest`.
    """
    starts, columns, observed, noise_x, noise = cells
    contexts = noise.size
    total = 0.0
    for i in range(scores.shape[0]):
        row = first + i
        cell, last = starts[row], starts[row + 1]
        if noise_x[row] == 0.0:
            continue
        row_score = row_divergence = 0.0
        for j in range(contexts):
            score = scores[i, j]
            noise_part = noise_x[row] * noise[j]
            if cell < last and columns[cell] == j:
                part = divergence(observed[cell], noise_part, score)
                row_score -= observed[cell] * softplus(-score) + noise_part * softplus(score)
                cell += 1
            else:
                part = noise_part * softplus(score)
                row_score -= part
            row_divergence += part
            by_context[j] += part
            if largest.values.size and part > largest.values[-1]:
                insert(largest, part, row * contexts + j)
        total += row_score
        by_word[row] += row_divergence
    return total


@kernel
def score_gradients(scores, first, cells):
    """Replace the scores (rows, C) of rows `first` and following by g = dS/dm. Return their part of S(m)."""
    starts, columns, observed, noise_x, noise = cells
    total = 0.0
    for i in range(scores.shape[0]):
        row = first + i
        cell, last = starts[row], starts[row + 1]
        row_score = 0.0
        for j in range(noise.size):
            score = scores[i, j]
            e = math.exp(-abs(score))
            plus = max(score, 0.0) + math.log1p(e)  # −log σ(−m)
            sigmoid = (1.0 if score >= 0.0 else e) / (1.0 + e)  # σ(m)
            noise_part = noise_x[row] * noise[j]
            row_score -= noise_part * plus
            gradient = -noise_part * sigmoid
            if cell < last and columns[cell] == j:
                row_score -= observed[cell] * (plus - score)
                gradient += observed[cell] * ((e if score >= 0.0 else 1.0) / (1.0 + e))  # σ(−m)
                cell += 1
            scores[i, j] = gradient
        total += row_score
    return total


@inlined
def score_of(scores, row, column):
    vectors, context_vectors, offset = scores
    score = offset[column]
    for d in range(vectors.shape[1]):
        score += vectors[row, d] * context_vectors[column, d]
    return score


@kernel
def observed_cells(first, last, rows, cells, scores, divergences):
    """Compute the divergence of the observed cells first to last."""
    for cell in range(first, last):
        row, column = rows[cell], cells.columns[cell]
        score = score_of(scores, row, column)
        divergences[cell] = divergence(cells.observed[cell], cells.noise_x[row] * cells.noise[column], score)


@kernel
def empty_cells(xs, ys, cells, scores, terms):
    """Compute −log σ(−m) for each empty cell among (xs[i], ys[i]), 0 for the others."""
    starts, columns = cells.starts, cells.columns
    for i in range(xs.size):
        row, column = xs[i], ys[i]
        low, high = starts[row], starts[row + 1]
        last = high
        while low < high:
            middle = (low + high) // 2
            if columns[middle] < column:
                low = middle + 1
            else:
                high = middle
        is_empty = low == last or columns[low] != column
        terms[i] = softplus(score_of(scores, row, column)) if is_empty else 0.0


def no_cells(size: int) -> Largest:
    """Return a list of `size` values, all empty."""
    return Largest(np.zeros(size), np.full(size, -1))


@kernel
def multiply_rows(first, last, starts, columns, values, dense, product):
    """Multiply rows first to last of a sparse matrix by a dense one: see `svd.Sparse`."""
    for row in range(first, last):
        for d in range(dense.shape[1]):
            product[row, d] = 0.0
        for cell in range(starts[row], starts[row + 1]):
            column, value = columns[cell], values[cell]
            for d in range(dense.shape[1]):
                product[row, d] += value * dense[column, d]
