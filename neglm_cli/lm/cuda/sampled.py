"""The losses of negative sampling: a word against k noise words. The mathematics is in `lm.cpu.sampled`.

A block has some rows that share noise words, or one row with words of its own. It goes through the words, some at a
time: their scores, the gradients of these, and at once what they add to the gradient of y. No score leaves the block.
"""

from numba import float32

from neglm_cli.errors import NeglmError
from neglm_cli.lm.cuda.functions import ONE, ZERO, sigmoid, softplus
from neglm_cli.lm.cuda.gpu import FLOATS, IDS, MATRIX, REAL, SHARED_BYTES, WHOLE, Kernel, cuda, kernel

LANES = 32  # threads that make one score together
PAIRS = 32  # of a row and a word, that are looked at together
NUMBER = 4  # bytes
OWN_BYTES = NUMBER * PAIRS * (LANES + 1 + 2)  # of shared memory, besides y and its gradient


def loss_kernel(at_once: int, name: str) -> Kernel:
    """`at_once` rows in a block, PAIRS / at_once words at a time."""
    words_at_once = PAIRS // at_once
    pitch = LANES + 1

    @kernel(
        MATRIX,
        MATRIX,
        FLOATS,
        IDS,
        FLOATS,
        MATRIX,
        FLOATS,
        *(WHOLE,) * 6,
        REAL,
        threads=128,
        tile=(at_once, 1),
        name=name,
    )
    def sampled_loss(
        source, table, offsets, row_of, factors, d_y, losses, room, rows, group_rows, k, width, size, scale
    ):  # fmt: skip
        """y are the rows of `source` from `room` on, `width` columns. group_rows: rows that share noise words.

        factors[place]: gradients of scores; those of noise words are (rows, k) from 2·room on, shared or not.
        """
        memory = cuda.shared.array(0, float32)  # y, d_y: (at_once, width) each
        parts = cuda.shared.array((PAIRS, pitch), float32)
        gradients = cuda.shared.array(PAIRS, float32)
        pair_losses = cuda.shared.array(PAIRS, float32)
        thread, threads = cuda.threadIdx.x, cuda.blockDim.x
        blocks = -(-group_rows // at_once)
        group = cuda.blockIdx.x // blocks
        top = group * group_rows + cuda.blockIdx.x % blocks * at_once
        count = min(at_once, min((group + 1) * group_rows, rows) - top)
        d_start = at_once * width
        for at in range(thread, at_once * width, threads):
            row, column = at // width, at % width
            memory[at] = source[room + top + row, column] if row < count else ZERO
            memory[d_start + at] = ZERO
        loss = ZERO
        cuda.syncthreads()
        # noise words, then each row's own word: the rows' targets are looked at as if they were words of all
        for first in range(0, k + at_once, words_at_once):
            for word in range(thread // LANES, words_at_once, threads // LANES):
                i = first + word
                lane = thread % LANES
                if i < k + at_once and (i < k or i - k < count):
                    place = 2 * room + group * k + i if i < k else room + top + i - k
                    row_of_word = row_of[place]
                    for row in range(at_once):
                        total = ZERO
                        if i < k or i - k == row:
                            for column in range(lane, width, LANES):
                                total += memory[row * width + column] * table[row_of_word, column]
                        parts[row * words_at_once + word, lane] = total
            cuda.syncthreads()
            if thread < PAIRS:
                row, i = thread // words_at_once, first + thread % words_at_once
                gradients[thread] = ZERO
                if row < count and (i < k or i - k == row):
                    place = 2 * room + group * k + i if i < k else room + top + row
                    score = offsets[row_of[place] - size]
                    for lane in range(LANES):
                        score += parts[thread, lane]
                    gradient = scale * (sigmoid(score) if i < k else sigmoid(score) - ONE)
                    loss += softplus(score) if i < k else softplus(score) - score
                    gradients[thread] = gradient
                    factors[2 * room + (top + row) * k + i if i < k else place] = gradient
            cuda.syncthreads()
            for word in range(words_at_once):
                i = first + word
                if i < k or i - k < count:
                    place = 2 * room + group * k + i if i < k else room + top + i - k
                    row_of_word = row_of[place]
                    for column in range(thread, width, threads):
                        value = table[row_of_word, column]
                        for row in range(at_once):
                            memory[d_start + row * width + column] += gradients[row * words_at_once + word] * value
            cuda.syncthreads()
        for at in range(thread, count * width, threads):
            d_y[top + at // width, at % width] = memory[d_start + at]
        if thread < PAIRS:
            pair_losses[thread] = loss
        cuda.syncthreads()
        if thread < count:
            total = ZERO
            for word in range(words_at_once):
                total += pair_losses[thread * words_at_once + word]
            losses[top + thread] = total

    return sampled_loss


token_loss = loss_kernel(1, "token_loss")
shared_loss = loss_kernel(4, "shared_loss")


def kernel_for(shared: bool, width: int) -> tuple[Kernel, int]:
    """The one with most rows in a block that find room there, and the bytes they take. For rows that share noise words,
    any will do."""
    for loss in (shared_loss, token_loss) if shared else (token_loss,):
        size = 2 * loss.tile[0] * width * NUMBER
        if size + OWN_BYTES <= SHARED_BYTES:
            return loss, size
    most = (SHARED_BYTES - OWN_BYTES) // (2 * NUMBER) - 1
    raise NeglmError(f"--hidden {width - 1} is more than fits on a GPU with this loss ({most:,}): use --device cpu")
