"""Negative sampling: losses of a word against k noise words. For the mathematics, see `lm.cpu.sampled`.

If each row of the batch has noise words of its own, a score is a product of two vectors that no other score shares. So
a block has a row: it loops over chunks of words, computes their scores, the gradients of the scores, and right away
their contribution to the gradient of y. No score leaves the block.

If rows share noise words, the scores are a product of matrices, y times the copied rows of the noise words, and so are
their contributions to the gradients: see `losses.SampledLoss`.
"""

from typing import NamedTuple

from numba import float32, int64

from neglm_cli.errors import NeglmError
from neglm_cli.lm.cuda.arrays import StepConfig
from neglm_cli.lm.cuda.functions import ONE, ZERO, index, inlined, softplus
from neglm_cli.lm.cuda.gpu import SHARED_BYTES, Floats, Ids, Int, Matrix, cuda, kernel
from neglm_cli.lm.cuda.occurrences import OccurrenceLayout
from neglm_cli.lm.cuda.tables import Terms
from neglm_cli.lm.scalar import sigmoid

LANES = 32  # threads per score
PITCH = LANES + 1  # avoids bank conflicts
CHUNK_WORDS = 32  # words that a block scores at a time; at most its threads
THREADS = 128  # of a block: at most, and a power of 2
FLOAT_BYTES = 4
STATIC_BYTES = CHUNK_WORDS * (FLOAT_BYTES * (PITCH + 2) + 8)  # of shared memory, without y and its gradient
NEXT, ONE_STRIDE, TWO_STRIDES, THREE_STRIDES = index(1), index(LANES), index(2 * LANES), index(3 * LANES)


class OutputLayer(NamedTuple):
    """The output layer: s(n, w) = y_n · table_{V + w} + offsets_w."""

    table: Matrix  # (2V, W)
    offsets: Floats  # (V,)
    width: Int  # of rows: units, and a bias


@inlined
def _part_of_dot(shared, table, row, lane, width):
    """Sum every LANES-th product of y, in shared memory, and a row of a table. Four loads are in flight at a time."""
    a = b = c = d = ZERO
    column, end = index(lane), index(width)
    while column + THREE_STRIDES < end:
        a += shared[column] * table[row, column]
        b += shared[column + ONE_STRIDE] * table[row, column + ONE_STRIDE]
        c += shared[column + TWO_STRIDES] * table[row, column + TWO_STRIDES]
        d += shared[column + THREE_STRIDES] * table[row, column + THREE_STRIDES]
        column += index(4 * LANES)
    while column < end:
        a += shared[column] * table[row, column]
        column += ONE_STRIDE
    return (a + b) + (c + d)


@kernel(threads=THREADS)
def token_loss(
    layer: OutputLayer, occurrence_row: Ids, terms: Terms, d_y: Matrix, losses: Floats, layout: OccurrenceLayout,
    config: StepConfig,
) -> None:  # fmt: skip
    """Compute each row's loss, the gradient of y, and the factors of its target and its noise words; a block for each.

    occurrence_row: `Occurrences.row`. y is part of the source of the terms.
    """
    table, offsets, width = layer
    factors, source = terms
    capacity, k, first_output = layout.capacity, layout.k, layout.first_output
    shared = cuda.shared.array(0, float32)  # y, d_y: (width,) each
    parts = cuda.shared.array((CHUNK_WORDS, PITCH), float32)
    gradients = cuda.shared.array(CHUNK_WORDS, float32)
    word_losses = cuda.shared.array(CHUNK_WORDS, float32)
    rows = cuda.shared.array(CHUNK_WORDS, int64)
    row, thread, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    for column in range(thread, width, threads):
        shared[index(column)] = source[index(capacity + row), index(column)]
        shared[index(width + column)] = ZERO
    loss = ZERO
    for first in range(0, k + 1, CHUNK_WORDS):  # noise words, then the target
        count = min(CHUNK_WORDS, k + 1 - first)
        i = first + thread
        occurrence = 2 * capacity + row * k + i if i < k else capacity + row
        if thread < count:
            rows[index(thread)] = occurrence_row[index(occurrence)]
        cuda.syncthreads()
        for at in range(thread // LANES, count, threads // LANES):
            total = _part_of_dot(shared, table, index(rows[index(at)]), thread % LANES, width)
            parts[index(at), index(thread % LANES)] = total
        cuda.syncthreads()
        if thread < count:
            score = offsets[index(rows[index(thread)] - first_output)]
            for lane in range(LANES):
                score += parts[index(thread), index(lane)]
            gradient = config.loss_scale * (sigmoid(score) if i < k else sigmoid(score) - ONE)
            loss += softplus(score) if i < k else softplus(score) - score
            gradients[index(thread)] = gradient
            factors[index(occurrence)] = gradient
        cuda.syncthreads()
        column = thread
        while column + threads < width:
            one, other = index(column), index(column + threads)
            sum_one, sum_other = shared[index(width) + one], shared[index(width) + other]
            word = index(0)
            while word < index(count):
                row_of_word, gradient = index(rows[word]), gradients[word]
                sum_one += gradient * table[row_of_word, one]
                sum_other += gradient * table[row_of_word, other]
                word += NEXT
            shared[index(width) + one], shared[index(width) + other] = sum_one, sum_other
            column += 2 * threads
        if column < width:
            total, word = shared[index(width + column)], index(0)
            while word < index(count):
                total += gradients[word] * table[index(rows[word]), index(column)]
                word += NEXT
            shared[index(width + column)] = total
        cuda.syncthreads()
    for column in range(thread, width, threads):
        d_y[index(row), index(column)] = shared[index(width + column)]
    if thread < CHUNK_WORDS:
        word_losses[index(thread)] = loss
    cuda.syncthreads()
    if thread == 0:
        total = ZERO
        for i in range(CHUNK_WORDS):
            total += word_losses[index(i)]
        losses[row] = total


# --- shared noise words ---------------------------------------------------------------------------------


@kernel(threads=128)
def copy_rows(table: Matrix, rows: Ids, first: Int, copies: Matrix, width: Int) -> None:
    """Copy the rows of a table that `rows` lists from `first` on; a block for each."""
    row, at = cuda.blockIdx.x, index(rows[index(first + cuda.blockIdx.x)])
    for column in range(cuda.threadIdx.x, width, cuda.blockDim.x):
        copies[index(row), index(column)] = table[at, index(column)]


@kernel(threads=THREADS)
def shared_loss(
    layer: OutputLayer, scores: Matrix, occurrence_row: Ids, terms: Terms, d_y: Matrix, losses: Floats,
    layout: OccurrenceLayout, config: StepConfig,
) -> None:  # fmt: skip
    """Replace each row's scores of noise words, (N, k), by their gradients, and compute its loss; a block for each.

    Writes the target's part of the gradient of y, and its factor.
    """
    table, offsets, width = layer
    factors, source = terms
    capacity, k, first_output = layout.capacity, layout.k, layout.first_output
    dots = cuda.shared.array(THREADS, float32)
    sums = cuda.shared.array(THREADS, float32)
    row, thread, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    group_rows = min(layout.group_rows, config.batch * config.steps)
    first_noise = 2 * capacity + row // group_rows * k
    loss = ZERO
    for i in range(thread, k, threads):
        score = scores[index(row), index(i)] + offsets[index(occurrence_row[index(first_noise + i)] - first_output)]
        scores[index(row), index(i)] = config.loss_scale * sigmoid(score)
        loss += softplus(score)
    target = index(occurrence_row[index(capacity + row)])
    dot = ZERO
    for column in range(thread, width, threads):
        dot += source[index(capacity + row), index(column)] * table[target, index(column)]
    dots[thread], sums[thread] = dot, loss
    cuda.syncthreads()
    half = threads // 2
    while half > 0:
        if thread < half:
            dots[thread] += dots[thread + half]
            sums[thread] += sums[thread + half]
        cuda.syncthreads()
        half //= 2
    score = dots[0] + offsets[index(occurrence_row[index(capacity + row)] - first_output)]
    gradient = config.loss_scale * (sigmoid(score) - ONE)
    for column in range(thread, width, threads):
        d_y[index(row), index(column)] = gradient * table[target, index(column)]
    if thread == 0:
        factors[index(capacity + row)] = gradient
        losses[row] = sums[0] + softplus(score) - score


def shared_bytes(width: int) -> int:
    """Return the bytes of dynamic shared memory of `token_loss`. Raise if a block cannot have them."""
    size = 2 * width * FLOAT_BYTES
    if size + STATIC_BYTES <= SHARED_BYTES:
        return size
    most = (SHARED_BYTES - STATIC_BYTES) // (2 * FLOAT_BYTES) - 1
    raise NeglmError(
        f"--hidden {width - 1} exceeds the maximum for noise words of each token on GPUs ({most:,}); use --noise step "
        "or --device cpu"
    )
