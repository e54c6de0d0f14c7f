"""Kernels that go over the cells of a matrix of scores: S(m), and what each cell adds to the divergence."""

import math

import numpy as np

from neglm_cli.kernels import inlined, kernel


@inlined
def softplus(score):
    """log(1 + e^m) = −log σ(−m), for any m."""
    return max(score, 0.0) + math.log1p(math.exp(-abs(score)))


@inlined
def divergence(observed, noise, score):
    """What a cell adds to KL(p_pmi ‖ p_m): Σ_z q p_pmi(z) log p_pmi(z) / p_m(z); q p_pmi(z) is `observed` and `noise`.

    Rounding may not make it negative.
    """
    q = observed + noise
    outcome = observed * (math.log(observed / q) + softplus(-score))
    if noise > 0.0:
        outcome += noise * (math.log(noise / q) + softplus(score))
    return max(outcome, 0.0)


@inlined
def keep_largest(value, cell, values, cells):
    """Put a value into a falling list of the largest ones, behind its equals."""
    i = values.size - 1
    while i > 0 and values[i - 1] < value:
        values[i], cells[i] = values[i - 1], cells[i - 1]
        i -= 1
    values[i], cells[i] = value, cell


@kernel
def all_cells(scores, first, starts, columns, observed, noise_x, noise, by_word, by_context, values, cells):
    """All cells of the rows from `first` on, whose scores these are. Returns their part of S(m).

    Adds their divergence to by_word and by_context; keeps the largest in `values`, and where they are in `cells`
    (row · C + column).
    """
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
            if values.size and part > values[-1]:
                keep_largest(part, row * contexts + j, values, cells)
        total += row_score
        by_word[row] += row_divergence
    return total


@kernel
def slopes(scores, first, starts, columns, observed, noise_x, noise):
    """The part of S(m) of the rows from `first` on, whose scores these are; the scores become g = dS/dm."""
    total = 0.0
    for i in range(scores.shape[0]):
        row = first + i
        cell, last = starts[row], starts[row + 1]
        row_score = 0.0
        for j in range(noise.size):
            score = scores[i, j]
            e = math.exp(-abs(score))
            plus = max(score, 0.0) + math.log1p(e)  # −log σ(−m)
            likely = (1.0 if score >= 0.0 else e) / (1.0 + e)  # σ(m)
            noise_part = noise_x[row] * noise[j]
            row_score -= noise_part * plus
            slope = -noise_part * likely
            if cell < last and columns[cell] == j:
                row_score -= observed[cell] * (plus - score)
                slope += observed[cell] * ((e if score >= 0.0 else 1.0) / (1.0 + e))  # σ(−m)
                cell += 1
            scores[i, j] = slope
        total += row_score
    return total


@inlined
def score_of(vectors, context_vectors, offset, row, column):
    score = offset[column]
    for d in range(vectors.shape[1]):
        score += vectors[row, d] * context_vectors[column, d]
    return score


@kernel
def observed_cells(first, last, rows, columns, observed, noise_x, noise, vectors, context_vectors, offset, divergences):
    """The divergence of each of the cells first to last, all of them with p(x,y) > 0."""
    for cell in range(first, last):
        row, column = rows[cell], columns[cell]
        score = score_of(vectors, context_vectors, offset, row, column)
        divergences[cell] = divergence(observed[cell], noise_x[row] * noise[column], score)


@kernel
def empty_cells(xs, ys, starts, columns, vectors, context_vectors, offset, terms):
    """−log σ(−m) at each of the cells (xs[i], ys[i]) that is empty, 0 at the others."""
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
        terms[i] = softplus(score_of(vectors, context_vectors, offset, row, column)) if is_empty else 0.0


def no_cells(size: int) -> tuple[np.ndarray, np.ndarray]:
    """An empty list for `keep_largest`: values and cells."""
    return np.zeros(size), np.full(size, -1)
