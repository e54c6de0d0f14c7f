"""What a training keeps on the GPU, and the launches of a minibatch."""

from typing import NamedTuple

import numpy as np

from neglm_cli.lm.cuda import optimise, rows, sampled, softmax
from neglm_cli.lm.cuda.gpu import Array, Gpu
from neglm_cli.lm.cuda.network import Network, States, Text
from neglm_cli.lm.cuda.product import Multiplier, Part
from neglm_cli.lm.cuda.together import Together, Touched
from neglm_cli.lm.device import Minibatch
from neglm_cli.lm.optimizers import EPSILON, KINDS, step_rate
from neglm_cli.lm.parameters import Shape, padded
from neglm_cli.scale.ranks import SINGLE_RANK, Ranks
from neglm_cli.settings.train_lm import SHARED, SOFTMAX, Settings

BLOCKS_PER_PROCESSOR = 8
SUM_BLOCKS = 256
SCORES = 1 << 24  # that are held at once


class Weights(NamedTuple):
    """Parameters, or what goes with each of them."""

    table: Array  # (2V, W): rows of words as inputs, then as outputs
    layers: Array  # (·,): one behind the other
    views: list[Array]  # of each layer: (D + 1 + H, 4H)

    @property
    def flat_table(self) -> Array:
        return self.table.reshape(-1)


def width_of(shape: Shape) -> int:
    """W: one for both tables, so that they are one."""
    return max(padded(shape.embedding), padded(shape.hidden + 1))


def weights(gpu: Gpu, shape: Shape, tables: bool = True) -> Weights:
    """All zeros; without tables, if nobody looks at them."""
    sizes = [(inputs + 1 + shape.hidden, 4 * shape.hidden) for inputs in shape.inputs]
    flat = gpu.zeros(sum(height * width for height, width in sizes))
    views, start = [], 0
    for height, width in sizes:
        views.append(flat[start : start + height * width].reshape(height, width))
        start += height * width
    return Weights(gpu.zeros((2 * shape.words if tables else 1, width_of(shape))), flat, views)


class Scorings:
    """Scores of all words for some rows of y, a block of words at a time."""

    def __init__(self, gpu: Gpu, multiplier: Multiplier, shape: Shape, number: int) -> None:
        self._gpu, self._multiplier, self._shape = gpu, multiplier, shape
        self.at_once = min(shape.words, max(1, SCORES // number))
        self.scores = gpu.zeros((number, self.at_once))
        self.highest, self.target_scores = gpu.zeros(number), gpu.zeros(number)
        self.sums = gpu.zeros(number, np.float64)

    def blocks(self) -> list[tuple[int, int]]:
        """Each the number of its first word, and how many there are."""
        words = self._shape.words
        return [(first, min(self.at_once, words - first)) for first in range(0, words, self.at_once)]

    def make(self, y: Part, number: int, table: Array, first: int, count: int) -> None:
        output = Part(table, self._shape.words + first)
        self._multiplier.multiply("transposed", y, output, Part(self.scores), number, count, self._shape.hidden + 1)

    def normalise(self, y: Part, number: int, table: Array, offsets: Array, words: Array) -> None:
        for first, count in self.blocks():
            self.make(y, number, table, first, count)
            self._gpu.launch(
                softmax.log_normalisers, number, self.scores, offsets, words, self.highest, self.sums,
                self.target_scores, first, count,
            )  # fmt: skip

    def log_z(self, number: int) -> np.ndarray:
        highest, sums = (self._gpu.download(array)[:number] for array in (self.highest, self.sums))
        return np.asarray(highest + np.log(sums))


class Training:
    """Arrays of a training; `train` launches all kernels of a minibatch, and waits for none."""

    def __init__(
        self, gpu: Gpu, multiplier: Multiplier, network: Network, shape: Shape, settings: Settings, values: Weights,
        noise: Array, offsets: Array, bias: float, ranks: Ranks = SINGLE_RANK, batch: int = 0,
    ) -> None:  # fmt: skip
        """With other processes, `batch` is that of all of them."""
        self._whole_batch = batch or settings.batch
        self._gpu, self._multiplier, self._network = gpu, multiplier, network
        self._shape, self._settings = shape, settings
        self.weights = values
        self._noise, self._offsets = noise, offsets
        moments = settings.moments
        self.squares = weights(gpu, shape, moments > 0)
        self.means = weights(gpu, shape, moments > 1)
        self.gradients = weights(gpu, shape, tables=False)
        self.moved = gpu.zeros(2 * shape.words if moments > 1 else 1, np.int32)
        self.states = States(gpu, shape, settings.batch, settings.bptt)
        self.record = gpu.zeros(2, np.float64)
        self._softmax = settings.mode == SOFTMAX
        self._shared = int(settings.mode == SHARED)
        if not self._softmax:
            self._loss_kernel, self._loss_bytes = sampled.kernel_for(bool(self._shared), shape.hidden + 1)
        self._make_places(bias)
        self._together = None
        if ranks.size > 1:
            most = min(self._places * -(-self._whole_batch // settings.batch), 2 * shape.words)
            self._together = Together(ranks, gpu, most, width_of(shape), shape.words)
        number = self._room
        self._d_y = gpu.zeros((number, width_of(shape)))
        self._d_c = gpu.zeros((settings.batch, shape.hidden))
        self._losses = gpu.zeros(number)
        self._partial, self._ticket = gpu.zeros(2 * SUM_BLOCKS, np.float64), gpu.zeros(1, np.int32)
        if self._softmax:
            self._scorings = Scorings(gpu, multiplier, shape, number)
        self._dense = gpu.zeros((shape.words if self._softmax else 1, width_of(shape)))

    def _make_places(self, bias: float) -> None:
        """See `rows`."""
        gpu, shape, settings = self._gpu, self._shape, self._settings
        room = self._room = settings.batch * settings.bptt
        noise_words = 0 if self._softmax else room // settings.group_rows * settings.k
        self._places = room if self._softmax else 2 * room + noise_words
        most = min(self._places, 2 * shape.words)
        self._row_of, self._rank, self._order = (gpu.zeros(self._places, np.int32) for _ in range(3))
        self._counts, self._slot_of = (gpu.zeros(2 * shape.words, np.int32) for _ in range(2))
        self.distinct, self._starts = (gpu.zeros(most, np.int32) for _ in range(2))
        chunks = most + self._places // rows.CHUNK
        self._chunk_slot, self._chunk_start = (gpu.zeros(chunks, np.int32) for _ in range(2))
        self._tally, self.found = gpu.zeros(1, np.int32), gpu.zeros(2, np.int32)
        self._row_gradients = gpu.zeros((most + 1, width_of(shape)))  # the last row is always zero
        self._factors = gpu.zeros(2 * room + (0 if self._softmax else room * settings.k))
        source = np.zeros((2 * room + (noise_words if self._shared else 0), width_of(shape)), np.float32)
        source[room : 2 * room, shape.hidden] = bias
        self._source = gpu.upload(source)
        if not self._softmax:
            self._noise_factors = self._factors[2 * room :].reshape(room, settings.k)

    def train(self, text: Text, step: int, rate: float, whole: Minibatch) -> None:
        """text: the rows of this process; whole: those of all."""
        settings = self._settings
        self._find_rows(text)
        if settings.exact:
            self.catch_up(self.distinct, self.found, step, rate)
        self._network.forward(self.weights.table, text, self.states, Part(self._source, self._room))
        (self._softmax_loss if self._softmax else self._sampled_loss)(text)
        self._network.backward(text, self.states, self._d_y, self._source, self._d_c, self.gradients.views)
        self._gather(text)
        touched = Touched(self.distinct, self.found, self._row_gradients)
        if self._together is not None:
            others = [self.gradients.layers, self._dense.reshape(-1)][: 1 + self._softmax]
            touched = self._together.add_up(whole, settings.mode, touched, others)
            if settings.exact:
                self.catch_up(touched.rows, touched.found, step, rate)
        self._move(text, step, rate, touched)

    def _blocks(self, work: int) -> int:
        """For kernels whose blocks take what is left to do."""
        return max(1, min(work, BLOCKS_PER_PROCESSOR * self._gpu.processors))

    def _find_rows(self, text: Text) -> None:
        gpu, places = self._gpu, self._places
        blocks = self._blocks(-(-places // rows.list_places.threads))
        gpu.launch(
            rows.list_places, blocks, self._noise, text.words, text.head, self._row_of, self._rank, self._counts,
            self._slot_of, self.distinct, self._tally, places, self._room, text.rows, text.batch, self._settings.k,
            self._settings.group_rows, self._shared, self._shape.words,
        )  # fmt: skip
        gpu.launch(
            rows.start_rows, 1, self._tally, self._counts, self.distinct, self.found, self._starts, self._chunk_slot,
            self._chunk_start,
        )  # fmt: skip
        gpu.launch(
            rows.order_places, blocks, self._row_of, self._rank, self._counts, self._slot_of, self._starts,
            self._order, self._row_gradients, places,
        )  # fmt: skip

    def _sampled_loss(self, text: Text) -> None:
        settings, shape, width = self._settings, self._shape, self._shape.hidden + 1
        kernel = self._loss_kernel
        group_rows = min(settings.group_rows, text.rows)
        groups = text.rows // group_rows
        self._gpu.launch(
            kernel, groups * -(-group_rows // kernel.tile[0]), self._source, self.weights.table, self._offsets,
            self._row_of, self._factors, self._d_y, self._losses, self._room, text.rows, group_rows, settings.k, width,
            shape.words, 1 / self._whole_batch, shared=self._loss_bytes,
        )  # fmt: skip
        if self._shared:  # noise rows, K for each group: gradients of scores, transposed, times y
            self._multiplier.multiply(
                "outer", Part(self._noise_factors), Part(self._source, self._room), Part(self._source, 2 * self._room),
                settings.k, width, group_rows, groups=groups, next_rows=(group_rows, group_rows, settings.k),
            )  # fmt: skip

    def _softmax_loss(self, text: Text) -> None:
        gpu, scorings, table, width = self._gpu, self._scorings, self.weights.table, self._shape.hidden + 1
        y, scores, number = Part(self._source, self._room), Part(scorings.scores), text.rows
        scorings.normalise(y, number, table, self._offsets, text.words)
        blocks = scorings.blocks()
        for first, count in blocks:
            if len(blocks) > 1:
                scorings.make(y, number, table, first, count)
            gpu.launch(
                softmax.softmax_gradients, number, scorings.scores, text.words, scorings.highest, scorings.sums,
                scorings.target_scores, self._losses, self._offsets, first, count, int(len(blocks) == 1),
                1 / self._whole_batch,
            )  # fmt: skip
            self._multiplier.multiply("outer", scores, y, Part(self._dense, first), count, width, number)
            output = Part(table, self._shape.words + first)
            self._multiplier.multiply("inner", scores, output, Part(self._d_y), number, width, count, add=first > 0)

    def _gather(self, text: Text) -> None:
        self._gpu.launch(
            rows.gather, self._blocks(self._places), self.distinct, self._counts, self.found, self._starts,
            self._chunk_slot, self._chunk_start, self._order, self._factors, self._source, self._row_gradients,
            text.head, self._room, text.batch, self._shape.embedding, self._settings.k, self._shared, text.dropped,
        )  # fmt: skip

    def loss(self, mine: float) -> float:
        """That of all processes."""
        return mine if self._together is None else self._together.sum_of(mine)

    def _move(self, text: Text, step: int, rate: float, touched: Touched) -> None:
        gpu, settings, shape = self._gpu, self._settings, self._shape
        values, means, squares = self.weights, self.means, self.squares
        numbers = self._dense.size if self._softmax else 0
        gpu.launch(
            optimise.sum_up, min(SUM_BLOCKS, self._blocks(SUM_BLOCKS)), self.gradients.layers, touched.gradients,
            touched.found, self._dense.reshape(-1), self._losses, self._partial, self._ticket, self.record, text.rows,
            numbers,
        )  # fmt: skip
        kind = KINDS[settings.optimizer]
        how = (self.record, settings.clip, step_rate(kind, rate, step), EPSILON)
        gpu.launch(
            optimise.move_rows, self._blocks(self._places), kind, values.flat_table, touched.rows, touched.found,
            self._counts, touched.gradients, means.flat_table, squares.flat_table, self.moved, *how, step,
        )  # fmt: skip
        size = values.layers.size
        gpu.launch(
            optimise.move_all, self._blocks(-(-size // optimise.THREADS)), kind, values.layers, self.gradients.layers,
            means.layers, squares.layers, *how, 0, size,
        )  # fmt: skip
        if numbers:
            first = shape.words * width_of(shape)
            gpu.launch(
                optimise.move_all, self._blocks(-(-numbers // optimise.THREADS)), kind, values.flat_table,
                self._dense.reshape(-1), means.flat_table, squares.flat_table, *how, first, numbers,
            )  # fmt: skip

    def catch_up(self, distinct: Array, found: Array, step: int, rate: float) -> None:
        values, means, squares = self.weights.table, self.means.table, self.squares.table
        self._gpu.launch(
            optimise.catch_up, self._blocks(self._places), values, means, squares, self.moved, distinct, found, step,
            rate, EPSILON,
        )  # fmt: skip
