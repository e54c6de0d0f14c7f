"""Negative sampling: losses of a word against k noise words. For the mathematics, see `lm.cpu.sampled`.

A block has several rows that share noise words, or a single row. It loops over chunks of words: computes their scores,
the gradients of the scores, and right away their contribution to the gradient of y. No score leaves the block.
"""

from typing import NamedTuple

from numba import float32

from neglm_cli.errors import NeglmError
from neglm_cli.lm.cuda.arrays import StepConfig
from neglm_cli.lm.cuda.functions import ONE, ZERO, index, softplus
from neglm_cli.lm.cuda.gpu import SHARED_BYTES, Floats, Ids, Int, Kernel, Matrix, cuda, kernel
from neglm_cli.lm.cuda.occurrences import OccurrenceLayout
from neglm_cli.lm.cuda.tables import Terms
from neglm_cli.lm.scalar import sigmoid

LANES = 32  # threads per score
PAIRS = 32  # of a row and a word that a block computes at a time
FLOAT_BYTES = 4
STATIC_BYTES = FLOAT_BYTES * PAIRS * (LANES + 1 + 2)  # of shared memory, without y and its gradient


class OutputLayer(NamedTuple):
    """The output layer: s(n, w) = y_n · table_{V + w} + offsets_w."""

    table: Matrix  # (2V, W)
    offsets: Floats  # (V,)
    width: Int  # of rows: units, and a bias


def loss_kernel(block_rows: int, name: str) -> Kernel:
    """Make a kernel whose blocks have `block_rows` rows, and PAIRS / block_rows words at a time."""
    chunk_words = PAIRS // block_rows
    pitch = LANES + 1

    @kernel(threads=128, tile=(block_rows, 1), name=name)
    def sampled_loss(
        layer: OutputLayer, occurrence_row: Ids, terms: Terms, d_y: Matrix, losses: Floats, layout: OccurrenceLayout,
        config: StepConfig,
    ) -> None:  # fmt: skip
        """Compute each row's loss, the gradient of y, and the factors of targets and noise words.

        occurrence_row: `Occurrences.row`. y is part of the source of the terms.
        """
        table, offsets, width = layer
        factors, source = terms
        capacity, k, first_output = layout.capacity, layout.k, layout.first_output
        rows = config.batch * config.steps
        group_rows = min(layout.group_rows, rows)
        shared = cuda.shared.array(0, float32)  # y, d_y: (block_rows, width) each
        parts = cuda.shared.array((PAIRS, pitch), float32)
        gradients = cuda.shared.array(PAIRS, float32)
        pair_losses = cuda.shared.array(PAIRS, float32)
        thread, threads = cuda.threadIdx.x, cuda.blockDim.x
        blocks = -(-group_rows // block_rows)
        group = cuda.blockIdx.x // blocks
        top = group * group_rows + cuda.blockIdx.x % blocks * block_rows
        count = min(block_rows, min((group + 1) * group_rows, rows) - top)
        d_start = block_rows * width
        for at in range(thread, block_rows * width, threads):
            row, column = at // width, at % width
            shared[index(at)] = source[index(capacity + top + row), index(column)] if row < count else ZERO
            shared[index(d_start + at)] = ZERO
        loss = ZERO
        cuda.syncthreads()
        # Noise words, then targets, which are treated as if shared by all rows of the block.
        for first in range(0, k + block_rows, chunk_words):
            for word in range(thread // LANES, chunk_words, threads // LANES):
                i = first + word
                lane = thread % LANES
                if i < k + block_rows and (i < k or i - k < count):
                    occurrence = 2 * capacity + group * k + i if i < k else capacity + top + i - k
                    table_row = occurrence_row[index(occurrence)]
                    for row in range(block_rows):
                        total = ZERO
                        if i < k or i - k == row:
                            for column in range(lane, width, LANES):
                                total += shared[index(row * width + column)] * table[index(table_row), index(column)]
                        parts[index(row * chunk_words + word), index(lane)] = total
            cuda.syncthreads()
            if thread < PAIRS:
                row, i = thread // chunk_words, first + thread % chunk_words
                gradients[index(thread)] = ZERO
                if row < count and (i < k or i - k == row):
                    occurrence = 2 * capacity + group * k + i if i < k else capacity + top + row
                    score = offsets[index(occurrence_row[index(occurrence)] - first_output)]
                    for lane in range(LANES):
                        score += parts[index(thread), index(lane)]
                    gradient = config.loss_scale * (sigmoid(score) if i < k else sigmoid(score) - ONE)
                    loss += softplus(score) if i < k else softplus(score) - score
                    gradients[index(thread)] = gradient
                    factors[index(2 * capacity + (top + row) * k + i if i < k else occurrence)] = gradient
            cuda.syncthreads()
            for word in range(chunk_words):
                i = first + word
                if i < k or i - k < count:
                    occurrence = 2 * capacity + group * k + i if i < k else capacity + top + i - k
                    table_row = occurrence_row[index(occurrence)]
                    for column in range(thread, width, threads):
                        value = table[index(table_row), index(column)]
                        for row in range(block_rows):
                            shared[index(d_start + row * width + column)] += (
                                gradients[index(row * chunk_words + word)] * value
                            )
            cuda.syncthreads()
        for at in range(thread, count * width, threads):
            d_y[index(top + at // width), index(at % width)] = shared[index(d_start + at)]
        if thread < PAIRS:
            pair_losses[index(thread)] = loss
        cuda.syncthreads()
        if thread < count:
            total = ZERO
            for word in range(chunk_words):
                total += pair_losses[index(thread * chunk_words + word)]
            losses[index(top + thread)] = total

    return sampled_loss


token_loss = loss_kernel(1, "token_loss")
shared_loss = loss_kernel(4, "shared_loss")


def kernel_for(shared: bool, width: int) -> tuple[Kernel, int]:
    """Return the kernel with the most rows per block that fit in shared memory, and their bytes.

    shared: True if rows share noise words; then either kernel is correct.
    """
    for loss in (shared_loss, token_loss) if shared else (token_loss,):
        size = 2 * loss.tile[0] * width * FLOAT_BYTES
        if size + STATIC_BYTES <= SHARED_BYTES:
            return loss, size
    most = (SHARED_BYTES - STATIC_BYTES) // (2 * FLOAT_BYTES) - 1
    raise NeglmError(f"--hidden {width - 1} exceeds the maximum of this loss on GPUs ({most:,}); use --device cpu")
