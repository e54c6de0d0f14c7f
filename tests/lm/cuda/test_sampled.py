"""Losses of negative sampling and their gradients, with separate and shared noise words."""

import numpy as np
import pytest

from neglm_cli.errors import NeglmError
from neglm_cli.lm import reference
from neglm_cli.lm.cuda import sampled
from neglm_cli.lm.cuda.arrays import StepConfig
from neglm_cli.lm.cuda.gpu import Gpu, Grid
from neglm_cli.lm.cuda.occurrences import OccurrenceLayout
from neglm_cli.lm.cuda.tables import Terms
from neglm_cli.lm.scalar import sigmoid

WORDS = 12
SCALE = 0.25
MARK = -7777.0
# rows, rows that share, noise words, units and bias
TOKEN_CASES = [(1, 1, 1, 1), (3, 1, 5, 7), (2, 1, 40, 35), (2, 1, 32, 6), (1, 1, 31, 130)]
SHARED_CASES = [(5, 5, 3, 7), (6, 3, 9, 5), (9, 9, 17, 34), (4, 2, 8, 3), (8, 4, 4, 2)]


def model_of(table: np.ndarray, width: int) -> reference.Model:
    output = table[WORDS:, : width - 1].astype(float)
    return reference.Model(np.zeros((1, 1)), [], [], [], output, table[WORDS:, width - 1].astype(float))


def check(gpu: Gpu, rows: int, group_rows: int, k: int, width: int) -> None:
    """The last column of the table is the bias, that of y is 1; other columns are NaN and must not be read."""
    shared = group_rows > 1
    random = np.random.default_rng(rows * k)
    capacity = rows + 2
    table = np.full((2 * WORDS, width + 3), np.nan, np.float32)
    table[WORDS:, :width] = random.standard_normal((WORDS, width))
    source = np.full((2 * capacity, width + 3), np.nan, np.float32)
    source[capacity : capacity + rows, :width] = random.standard_normal((rows, width))
    source[capacity : capacity + rows, width - 1] = 1
    offsets = random.standard_normal(WORDS).astype(np.float32)
    targets, noise = random.integers(0, WORDS, rows), random.integers(0, WORDS, (rows // group_rows, k))
    occurrence_row = np.full(2 * capacity + capacity // group_rows * k, -1, np.int32)
    occurrence_row[capacity : capacity + rows] = WORDS + targets
    occurrence_row[2 * capacity : 2 * capacity + noise.size] = WORDS + noise.reshape(-1)
    factors, d_y, losses = (
        gpu.upload(np.full(shape, MARK, np.float32))
        for shape in (occurrence_row.shape, (capacity, width + 3), capacity)
    )
    arguments = {
        "layer": sampled.OutputLayer(gpu.upload(table), gpu.upload(offsets), width),
        "occurrence_row": gpu.upload(occurrence_row), "terms": Terms(factors, gpu.upload(source)), "d_y": d_y,
        "losses": losses,
        "layout": OccurrenceLayout(occurrence_row.size, capacity, k, group_rows, int(shared), WORDS, width),
        "config": StepConfig(rows, 1, loss_scale=SCALE),
    }  # fmt: skip
    words = np.repeat(noise, group_rows, axis=0)
    y = source[capacity : capacity + rows, :width]
    if shared:
        scores = np.full((capacity, k + 1), MARK, np.float32)
        scores[:rows, :k] = np.einsum("rw,rkw->rk", y, table[WORDS + words, :width])
        on_gpu = gpu.upload(scores)
        gpu.launch(sampled.shared_loss, rows, scores=on_gpu, **arguments)
    else:
        gpu.launch(sampled.token_loss, Grid(rows, shared=2 * width * 4), **arguments)

    model = model_of(table, width)
    expected_d_y, expected_factors = np.full((capacity, width + 3), MARK), np.full(occurrence_row.shape, MARK)
    expected_losses, expected_scores = np.full(capacity, MARK), np.full((capacity, k + 1), MARK)
    for row in range(rows):
        one, gradient = y[row : row + 1, None, : width - 1].astype(float), model.like()
        expected_losses[row], _ = reference.sampled_loss(
            model, one, targets[row : row + 1, None], words[row][None, None], offsets, True, SCALE, gradient
        )
        every = np.append(words[row], targets[row])
        truth = np.append(np.zeros(k), 1)
        scores = model.output[every] @ one[0, 0] + offsets[every] + model.output_bias[every]
        d_scores = SCALE * (sigmoid(scores) - truth)
        expected_scores[row, :k] = d_scores[:k]
        expected_factors[capacity + row] = d_scores[k]
        if not shared:
            expected_factors[2 * capacity + row * k : 2 * capacity + (row + 1) * k] = d_scores[:k]
        added = slice(k, None) if shared else slice(None)  # products add the part of shared noise words
        expected_d_y[row, :width] = d_scores[added] @ table[WORDS + every[added], :width]
    for found, expected in ((d_y, expected_d_y), (factors, expected_factors), (losses, expected_losses)):
        np.testing.assert_allclose(gpu.download(found), expected, rtol=1e-5, atol=1e-5)
    if shared:
        np.testing.assert_allclose(gpu.download(on_gpu), expected_scores, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", TOKEN_CASES)
def test_separate_noise_words(gpu: Gpu, case: tuple[int, int, int, int]) -> None:
    check(gpu, *case)


@pytest.mark.parametrize("case", SHARED_CASES)
def test_shared_noise_words(gpu: Gpu, case: tuple[int, int, int, int]) -> None:
    check(gpu, *case)


def test_copies_of_rows(gpu: Gpu) -> None:
    table = np.random.default_rng(1).standard_normal((9, 20), np.float32)
    rows = np.array([7, 7, 8, 0, 3, 0], np.int32)
    copies = gpu.upload(np.full((5, 20), MARK, np.float32))
    gpu.launch(sampled.copy_rows, 3, table=gpu.upload(table), rows=gpu.upload(rows), first=2, copies=copies, width=18)
    expected = np.full((5, 20), MARK, np.float32)
    expected[:3, :18] = table[[8, 0, 3], :18]
    np.testing.assert_array_equal(gpu.download(copies), expected)


def test_rows_that_fit_shared_memory() -> None:
    assert sampled.shared_bytes(301) == 8 * 301
    sampled.shared_bytes(5552)
    with pytest.raises(NeglmError, match=r"--hidden 5552 exceeds the maximum .* on GPUs \(5,551\)"):
        sampled.shared_bytes(5553)
