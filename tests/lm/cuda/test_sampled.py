"""Losses of negative sampling and their gradients, with separate and shared noise words."""

import numpy as np
import pytest

from neglm_cli.errors import NeglmError
from neglm_cli.lm import reference
from neglm_cli.lm.cuda import sampled
from neglm_cli.lm.cuda.arrays import StepConfig
from neglm_cli.lm.cuda.gpu import Gpu, Grid, Kernel
from neglm_cli.lm.cuda.occurrences import OccurrenceLayout
from neglm_cli.lm.cuda.tables import Terms
from neglm_cli.lm.scalar import sigmoid

WORDS = 12
SCALE = 0.25
MARK = -7777.0
# rows, rows that share, noise words, units and bias
TOKEN_CASES = [(1, 1, 1, 1), (3, 1, 5, 7), (2, 1, 40, 35), (2, 1, 32, 6)]
SHARED_CASES = [(5, 5, 3, 7), (6, 3, 9, 5), (9, 9, 17, 34), (4, 2, 8, 3), (8, 4, 4, 2)]


def model_of(table: np.ndarray, width: int) -> reference.Model:
    output = table[WORDS:, : width - 1].astype(float)
    return reference.Model(np.zeros((1, 1)), [], [], [], output, table[WORDS:, width - 1].astype(float))


def check(gpu: Gpu, kernel: Kernel, rows: int, group_rows: int, k: int, width: int) -> None:
    """The last column of the table is the bias, that of y is 1; other columns are NaN and must not be read."""
    random = np.random.default_rng(rows * k)
    capacity = rows + 2
    table = np.full((2 * WORDS, width + 3), np.nan, np.float32)
    table[WORDS:, :width] = random.standard_normal((WORDS, width))
    source = np.full((2 * capacity, width + 3), np.nan, np.float32)
    source[capacity : capacity + rows, :width] = random.standard_normal((rows, width))
    source[capacity : capacity + rows, width - 1] = 1
    offsets = random.standard_normal(WORDS).astype(np.float32)
    targets, noise = random.integers(0, WORDS, rows), random.integers(0, WORDS, (rows // group_rows, k))
    occurrence_row = np.full(2 * capacity + capacity * k, -1, np.int32)
    occurrence_row[capacity : capacity + rows] = WORDS + targets
    occurrence_row[2 * capacity : 2 * capacity + noise.size] = WORDS + noise.reshape(-1)
    factors, d_y, losses = (
        gpu.upload(np.full(shape, MARK, np.float32))
        for shape in (occurrence_row.shape, (capacity, width + 3), capacity)
    )
    block_rows = kernel.tile[0]
    gpu.launch(
        kernel, Grid(rows // group_rows * -(-group_rows // block_rows), shared=2 * block_rows * width * 4),
        layer=sampled.OutputLayer(gpu.upload(table), gpu.upload(offsets), width),
        occurrence_row=gpu.upload(occurrence_row), terms=Terms(factors, gpu.upload(source)), d_y=d_y, losses=losses,
        layout=OccurrenceLayout(occurrence_row.size, capacity, k, group_rows, int(group_rows > 1), WORDS, width),
        config=StepConfig(rows, 1, loss_scale=SCALE),
    )  # fmt: skip

    model = model_of(table, width)
    y = source[capacity : capacity + rows, : width - 1].astype(float)[:, None]
    expected_d_y, expected_factors = np.full((capacity, width + 3), MARK), np.full(occurrence_row.shape, MARK)
    expected_losses = np.full(capacity, MARK)
    for row in range(rows):
        words = noise[row // group_rows]
        one, gradient = y[row : row + 1], model.like()
        expected_losses[row], d_one = reference.sampled_loss(
            model, one, targets[row : row + 1, None], words[None, None], offsets, True, SCALE, gradient
        )
        every = np.append(words, targets[row])
        truth = np.append(np.zeros(k), 1)
        scores = model.output[every] @ one[0, 0] + offsets[every] + model.output_bias[every]
        d_scores = SCALE * (sigmoid(scores) - truth)
        expected_d_y[row, : width - 1] = d_one[0, 0]
        expected_d_y[row, width - 1] = d_scores @ model.output_bias[every]
        expected_factors[2 * capacity + row * k : 2 * capacity + (row + 1) * k] = d_scores[:k]
        expected_factors[capacity + row] = d_scores[k]
    for found, expected in ((d_y, expected_d_y), (factors, expected_factors), (losses, expected_losses)):
        np.testing.assert_allclose(gpu.download(found), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", TOKEN_CASES)
def test_separate_noise_words(gpu: Gpu, case: tuple[int, int, int, int]) -> None:
    check(gpu, sampled.token_loss, *case)


@pytest.mark.parametrize("case", SHARED_CASES)
def test_shared_noise_words(gpu: Gpu, case: tuple[int, int, int, int]) -> None:
    check(gpu, sampled.shared_loss, *case)


@pytest.mark.parametrize("case", SHARED_CASES[:2])
def test_shared_noise_words_with_one_row_per_block(gpu: Gpu, case: tuple[int, int, int, int]) -> None:
    """As in models whose rows fill the shared memory."""
    check(gpu, sampled.token_loss, *case)


def test_rows_that_fit_shared_memory() -> None:
    assert sampled.kernel_for(True, 1396) == (sampled.shared_loss, 32 * 1396)
    assert sampled.kernel_for(True, 1397) == (sampled.token_loss, 8 * 1397)
    assert sampled.kernel_for(False, 301) == (sampled.token_loss, 8 * 301)
    sampled.kernel_for(True, 5584)
    for shared in (False, True):
        with pytest.raises(NeglmError, match=r"--hidden 5584 exceeds the maximum of this loss on GPUs \(5,583\)"):
            sampled.kernel_for(shared, 5585)
