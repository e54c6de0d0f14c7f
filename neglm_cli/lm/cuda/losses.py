"""The losses, with a common interface: launch the kernels that compute losses and gradients from y.

A loss writes each row's loss to `losses` and the gradient of y to d_y. Gradients of the output table are sparse (see
`tables`) or, for the softmax, dense.
"""

from typing import Any, Protocol

import numpy as np

from neglm_cli.lm import setup
from neglm_cli.lm.cuda import sampled, softmax
from neglm_cli.lm.cuda.arrays import BatchArrays, StepConfig, first_output, table_width
from neglm_cli.lm.cuda.gemm import Extent, Gemm, Groups, MatrixView
from neglm_cli.lm.cuda.gpu import Array, Gpu, Grid
from neglm_cli.lm.cuda.network import Network
from neglm_cli.lm.cuda.softmax import NormalizerBuffers, WordBlock
from neglm_cli.lm.cuda.tables import TableGradients
from neglm_cli.lm.parameters import Shape
from neglm_cli.settings.train_lm import Settings


class Loss(Protocol):
    losses: Array  # float32 (N,): of each row
    dense_gradients: Array  # (V, W): of the output table; a single row unless `dense_size`
    dense_size: int  # number of valid values in dense_gradients

    def compute(self, table: Array, d_y: Array, batch: BatchArrays, config: StepConfig) -> None:
        """Compute losses, the gradient of y, and the terms of the output table's gradients."""
        ...


def make_loss(network: Network, tables: TableGradients, settings: Settings, offsets: Array) -> Loss:
    """Create the loss for some rows of a batch. offsets: float32 (V,), added to training scores."""
    if settings.sampled:
        return SampledLoss(network, tables, settings, offsets)
    return SoftmaxLoss(network, tables, offsets)


# --- noise words ----------------------------------------------------------------------------------------


class SampledLoss:
    """Negative sampling with noise words for each row, or shared by groups of rows.

    Of shared noise words, with copies of their table rows: scores = y · copiesᵀ, d_y += d_scores · copies, and the
    gradients of the copies are d_scoresᵀ · y.
    """

    dense_size = 0

    def __init__(self, network: Network, tables: TableGradients, settings: Settings, offsets: Array) -> None:
        gpu, shape, layout = network.gpu, network.shape, tables.layout
        self._gpu, self._gemm, self._tables, self._offsets = gpu, network.gemm, tables, offsets
        self._width = shape.hidden + 1
        self._shared = settings.shared_noise
        self.losses = gpu.zeros(layout.capacity)
        self.dense_gradients = gpu.zeros((1, table_width(shape)))
        if self._shared:
            self._copies = gpu.zeros((tables.noise_words, table_width(shape)))
            self._scores = gpu.zeros((layout.capacity, layout.k))
        else:
            self._shared_bytes = sampled.shared_bytes(self._width)

    def compute(self, table: Array, d_y: Array, batch: BatchArrays, config: StepConfig) -> None:
        layer = sampled.OutputLayer(table, self._offsets, self._width)
        common = {
            "layer": layer, "occurrence_row": self._tables.occurrences.row, "terms": self._tables.terms, "d_y": d_y,
            "losses": self.losses, "layout": self._tables.layout, "config": config,
        }  # fmt: skip
        if self._shared:
            self._compute_shared(table, d_y, config.rows, common)
        else:
            self._gpu.launch(sampled.token_loss, Grid(config.rows, shared=self._shared_bytes), **common)

    def _compute_shared(self, table: Array, d_y: Array, rows: int, common: dict[str, Any]) -> None:
        gpu, layout, source, width = self._gpu, self._tables.layout, self._tables.terms.source, self._width
        group_rows, k = min(layout.group_rows, rows), layout.k
        groups = rows // group_rows
        y, copies, scores = MatrixView(source, layout.capacity), MatrixView(self._copies), MatrixView(self._scores)
        gpu.launch(
            sampled.copy_rows, groups * k, table=table, rows=common["occurrence_row"], first=2 * layout.capacity,
            copies=self._copies, width=width,
        )  # fmt: skip
        of_copies, of_rows = Groups(groups, group_rows, group_rows, k), Groups(groups, group_rows, k, group_rows)
        self._gemm.matmul("nt", y, copies, scores, Extent(group_rows, k, width), groups=of_rows)
        gpu.launch(sampled.shared_loss, rows, scores=self._scores, **common)
        extent = Extent(group_rows, width, k)
        self._gemm.matmul("nn", scores, copies, MatrixView(d_y), extent, accumulate=True, groups=of_rows)
        gradients = MatrixView(source, 2 * layout.capacity)
        self._gemm.matmul("tn", scores, y, gradients, Extent(k, width, group_rows), groups=of_copies)


# --- softmax --------------------------------------------------------------------------------------------


class VocabularyScores:
    """Scores of all words for some rows of y, in blocks of words."""

    def __init__(self, gpu: Gpu, gemm: Gemm, shape: Shape, rows: int) -> None:
        self._gpu, self._gemm, self._shape = gpu, gemm, shape
        self._block_words = min(shape.words, max(1, setup.MAX_SCORES // rows))
        self.scores = gpu.zeros((rows, self._block_words))
        self.normalizers = NormalizerBuffers(gpu.zeros(rows), gpu.zeros(rows, np.float64), gpu.zeros(rows))

    def blocks(self) -> list[WordBlock]:
        words = self._shape.words
        return [WordBlock(first, min(self._block_words, words - first)) for first in range(0, words, self._block_words)]

    def compute(self, y: MatrixView, rows: int, table: Array, block: WordBlock) -> None:
        """Compute the scores of a block, without offsets."""
        output = MatrixView(table, first_output(self._shape) + block.first)
        extent = Extent(rows, block.size, self._shape.hidden + 1)
        self._gemm.matmul("nt", y, output, MatrixView(self.scores), extent)

    def normalize(self, y: MatrixView, rows: int, table: Array, offsets: Array, words: Array) -> None:
        """Compute the normalizers and the scores of targets, for the first rows of y. words: see `BatchArrays`."""
        for block in self.blocks():
            self.compute(y, rows, table, block)
            self._gpu.launch(
                softmax.log_normalizers, rows, scores=self.scores, offsets=offsets, words=words,
                normalizers=self.normalizers, block=block,
            )  # fmt: skip

    def log_z(self, rows: int) -> np.ndarray:
        highest, sums = (self._gpu.download(array)[:rows] for array in self.normalizers[:2])
        return np.asarray(highest + np.log(sums))


class SoftmaxLoss:
    """The full softmax."""

    def __init__(self, network: Network, tables: TableGradients, offsets: Array) -> None:
        gpu, shape, capacity = network.gpu, network.shape, tables.layout.capacity
        self._gpu, self._gemm, self._shape = gpu, network.gemm, shape
        self._y, self._offsets = MatrixView(tables.terms.source, capacity), offsets
        self.losses = gpu.zeros(capacity)
        self._scores = VocabularyScores(gpu, network.gemm, shape, capacity)
        self.dense_gradients = gpu.zeros((shape.words, table_width(shape)))
        self.dense_size = self.dense_gradients.size

    def compute(self, table: Array, d_y: Array, batch: BatchArrays, config: StepConfig) -> None:
        y, rows, width = self._y, config.rows, self._shape.hidden + 1
        self._scores.normalize(y, rows, table, self._offsets, batch.words)
        scores, blocks = MatrixView(self._scores.scores), self._scores.blocks()
        for block in blocks:
            if len(blocks) > 1:
                self._scores.compute(y, rows, table, block)
            self._gpu.launch(
                softmax.softmax_gradients, rows, scores=scores.array, offsets=self._offsets, words=batch.words,
                normalizers=self._scores.normalizers, losses=self.losses, block=block,
                with_offsets=int(len(blocks) == 1), scale=config.loss_scale,
            )  # fmt: skip
            gradients = MatrixView(self.dense_gradients, block.first)
            self._gemm.matmul("tn", scores, y, gradients, Extent(block.size, width, rows))
            output = MatrixView(table, first_output(self._shape) + block.first)
            self._gemm.matmul(
                "nn", scores, output, MatrixView(d_y), Extent(rows, width, block.size), accumulate=block.first > 0
            )
