"""Scoring on a GPU. The states and y that `step` takes and returns are arrays on the host."""

from functools import cached_property
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from neglm_cli.lm.cuda.arrays import Activations, StepConfig, first_output, table_width
from neglm_cli.lm.cuda.functions import DROPOUT_KEYS
from neglm_cli.lm.cuda.gemm import MatrixView
from neglm_cli.lm.cuda.gpu import Array
from neglm_cli.lm.cuda.losses import VocabularyScores
from neglm_cli.lm.cuda.network import Network, read_state, write_state
from neglm_cli.lm.cuda.staging import StagingBuffer
from neglm_cli.lm.cuda.tables import lookup
from neglm_cli.lm.device import Scores, State, StepOutput

if TYPE_CHECKING:
    from neglm_cli.lm.cuda.device import CudaDevice


class CudaScorer:
    """Scores texts on a GPU; see `device.Scorer`."""

    def __init__(self, device: "CudaDevice", capacity: int) -> None:
        gpu, shape = device.gpu, device.shape
        self.capacity = capacity
        self._device = device
        self._start: State | None = None
        self._is_reset = True
        self._activations = Activations(gpu, shape, capacity, 1)
        self._scores = VocabularyScores(gpu, device.kernels.gemm, shape, capacity)
        self._staging = cycle([StagingBuffer(gpu, capacity, shape.layers) for _ in range(2)])  # one read, one filled
        self._no_keys = np.zeros(shape.layers + 1, np.uint64)
        self._no_targets = gpu.zeros(capacity, np.uint64)
        y = np.zeros((capacity, table_width(shape)), np.float32)
        y[:, shape.hidden] = device.bias
        self._y = gpu.upload(y)
        self._offsets = gpu.download(device.logit_offsets)

    def reset(self, state: State | None = None) -> None:
        self._start = state
        self._is_reset = True  # the next forward pass knows how many rows it needs

    def parameters_changed(self) -> None:
        """Do nothing: results of earlier calls are not kept."""

    def advance(self, inputs: np.ndarray) -> None:
        buffer = self._forward(inputs, inputs)
        buffer.done = self._device.gpu.event()

    def score(
        self, inputs: np.ndarray, targets: np.ndarray, normalized: bool = True, sizes: np.ndarray | None = None
    ) -> Scores:
        batch, steps = self._scored = inputs.shape
        rows = batch * steps
        buffer = self._forward(inputs, targets)
        if normalized:
            log_z = self._normalize(rows, buffer)
            log_probabilities = self._device.gpu.download(self._scores.normalizers.target_scores)[:rows] - log_z
        else:
            log_z = np.zeros(rows)
            log_probabilities = self.target_logits(self._device.gpu.download(self._y[:rows]), targets.T.reshape(-1))
        return Scores(log_probabilities.reshape(steps, batch).T, log_z.reshape(steps, batch).T)

    def outputs(self) -> np.ndarray:
        batch, steps = self._scored
        units = self._device.shape.hidden
        y = self._device.gpu.download(self._y[: batch * steps])[:, :units]
        return np.ascontiguousarray(y.reshape(steps, batch, units).transpose(1, 0, 2))

    def step(self, state: State | None, words: np.ndarray) -> StepOutput:
        gpu, shape, rows = self._device.gpu, self._device.shape, len(words)
        self._write_state(state or State.zeros(shape, rows))
        self._forward(words[:, None], words[:, None])
        return StepOutput(read_state(gpu, shape, self._activations, rows), gpu.download(self._y[:rows]))

    def log_z(self, y: np.ndarray) -> np.ndarray:
        self._device.gpu.write(self._y[: len(y)], y)
        return self._normalize(len(y))

    def target_logits(self, y: np.ndarray, targets: np.ndarray) -> np.ndarray:
        pieces = [self._output_rows(targets[at : at + self.capacity]) for at in range(0, len(targets), self.capacity)]
        logits = np.einsum("nh,nh->n", y, np.concatenate(pieces)) + self._offsets[targets]
        return np.asarray(logits, np.float64)

    def logits(self, y: np.ndarray) -> np.ndarray:
        gpu, scores, rows = self._device.gpu, self._scores, len(y)
        gpu.write(self._y[:rows], y)
        blocks = []
        for block in scores.blocks():
            scores.compute(MatrixView(self._y), rows, self._device.weights.table, block)
            blocks.append(gpu.download(scores.scores[:rows])[:, : block.size])
        return np.concatenate(blocks, axis=1) + self._offsets

    def _forward(self, inputs: np.ndarray, targets: np.ndarray) -> StagingBuffer:
        """Read (B, T) words; y of row t·B + b is that of word (b, t)."""
        device = self._device
        if self._is_reset:
            self._write_state(self._start or State.zeros(device.shape, len(inputs)))
        buffer = self._send(inputs, targets)
        batch, steps = inputs.shape
        config = StepConfig(batch, steps, reset_word=device.reset_word)
        network = self._one_row if batch == 1 else self._several_rows
        network.forward(device.weights.table, buffer.batch, config, self._activations, MatrixView(self._y))
        return buffer

    @cached_property
    def _one_row(self) -> Network:
        return self._network(1)

    @cached_property
    def _several_rows(self) -> Network:
        return self._network(self.capacity)

    def _network(self, batch: int) -> Network:
        device = self._device
        return Network(device.gpu, device.kernels, device.shape, device.weights.views, batch)

    def _send(self, inputs: np.ndarray, targets: np.ndarray) -> StagingBuffer:
        buffer = next(self._staging)
        buffer.fill(inputs, targets, [0] * DROPOUT_KEYS, self._no_keys)
        buffer.send()
        return buffer

    def _write_state(self, state: State) -> None:
        write_state(self._device.gpu, self._device.shape, self._activations, state, self.capacity)
        self._is_reset = False

    def _normalize(self, rows: int, buffer: StagingBuffer | None = None) -> np.ndarray:
        """Compute log Z for the first rows of y, and the scores of the targets in the buffer."""
        device, words = self._device, self._no_targets if buffer is None else buffer.batch.words
        self._scores.normalize(MatrixView(self._y), rows, device.weights.table, device.logit_offsets, words)
        return self._scores.log_z(rows)

    def _output_rows(self, words: np.ndarray) -> np.ndarray:
        """Download rows of the output table, (N, W), at most `capacity`. See `arrays.first_output`."""
        device, rows = self._device, len(words)
        ids = words[:, None].astype(np.int64) + first_output(device.shape)
        buffer = self._send(ids, ids)
        device.gpu.launch(
            lookup, rows, table=device.weights.table, batch=buffer.batch, config=StepConfig(rows, 1), x=self._gathered,
            width=table_width(device.shape),
        )  # fmt: skip
        return device.gpu.download(self._gathered[:rows])

    @cached_property
    def _gathered(self) -> Array:
        return self._device.gpu.zeros((self.capacity, table_width(self._device.shape)))
