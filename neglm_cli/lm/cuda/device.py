"""A GPU as a device: a model in its memory, trained and scored by queued launches."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import cycle

import numpy as np

from neglm_cli.lm.cuda import lstm
from neglm_cli.lm.cuda.arrays import Activations, BatchArrays, StepConfig, table_width, zero_weights
from neglm_cli.lm.cuda.functions import DROPOUT_KEYS
from neglm_cli.lm.cuda.gemm import Gemm, MatrixView, TiledGemm
from neglm_cli.lm.cuda.gpu import Gpu, Signal
from neglm_cli.lm.cuda.losses import VocabularyScores
from neglm_cli.lm.cuda.network import Network, PersistentPlan
from neglm_cli.lm.cuda.optimizer import LOSS, NORM
from neglm_cli.lm.cuda.tensors import load_tensors, to_tensors
from neglm_cli.lm.cuda.training import Training
from neglm_cli.lm.device import Finished, Minibatch, Pending, Scores, StepResult, Tensors, gather_rows
from neglm_cli.lm.parameters import Parameters
from neglm_cli.lm.tensors import optimizer_arrays, row_steps, stacked_row_steps
from neglm_cli.lm.trainer import QUEUED
from neglm_cli.objective.losses import LOSSES, logit_offsets, train_offsets
from neglm_cli.objective.noise import alias_table, probabilities
from neglm_cli.objective.random import DROPOUT, NOISE, draw, stream
from neglm_cli.scale.ranks import SINGLE_RANK, Ranks, split_evenly
from neglm_cli.settings.parameters import CELL_STATE, HIDDEN_STATE
from neglm_cli.settings.train_lm import Settings

SAMPLED_ROWS = 64  # whose log Z is computed while training
S32 = np.uint64(32)


class StagingBuffer:
    """Page-locked memory for a minibatch, copied to the GPU at once, and for its result.

    It is reused only when `done` has passed: until a caller sets it, all work launched so far.
    """

    def __init__(self, gpu: Gpu, rows: int, layers: int) -> None:
        size = DROPOUT_KEYS + layers + 1
        self._gpu = gpu
        self._host = gpu.pinned(size + rows, np.uint64)
        self._device = gpu.zeros(size + rows, np.uint64)
        self.batch = BatchArrays(words=self._device[size:], header=self._device[:size])
        self.result = gpu.pinned(2, np.float64)
        self.done: Signal = gpu

    def send(self, inputs: np.ndarray, targets: np.ndarray, header: list[int], keys: np.ndarray) -> None:
        """inputs, targets: (B, T). header: see `functions`; keys: of dropout."""
        self.done.synchronize()
        self.done = self._gpu
        host, size = self._host, len(self.batch.header)
        host[:DROPOUT_KEYS] = header
        host[DROPOUT_KEYS : DROPOUT_KEYS + len(keys)] = keys
        words = inputs.T.astype(np.uint64) | (targets.T.astype(np.uint64) << S32)
        host[size : size + words.size] = words.reshape(-1)
        self._gpu.copy_in(self._device, host)


class PendingMinibatch:
    """A minibatch in progress. Its result is read before the staging buffer is reused."""

    def __init__(self, done: Signal, result: np.ndarray, words: int) -> None:
        self._done, self._result, self._words = done, result, words
        self._trained: StepResult | None = None

    def result(self) -> StepResult:
        if self._trained is None:
            self._done.synchronize()
            self._trained = StepResult(float(self._result[LOSS]), self._words, float(self._result[NORM]))
        return self._trained

    def synchronize(self) -> None:
        self.result()


class CudaDevice:
    """A model with its counts, for scoring; `prepare_training` makes the arrays for training, too."""

    def __init__(
        self, parameters: Parameters, settings: Settings, counts: np.ndarray, end_of_line: int, gpu: Gpu,
        gemm: Gemm | None = None, step_kernels: lstm.StepKernels = lstm.STEP_KERNELS, ranks: Ranks = SINGLE_RANK,
    ) -> None:  # fmt: skip
        self.shape = parameters.shape
        self.settings = settings
        self._ranks = ranks
        starts = split_evenly(settings.batch, ranks.size)
        self._rows = slice(starts[ranks.rank], starts[ranks.rank + 1])  # of the batch: those of this rank
        self._batch = self._rows.stop - self._rows.start
        self.gpu = gpu
        self.gemm = gemm or TiledGemm(gpu)
        self.step_kernels = step_kernels
        self.reset_word = end_of_line if settings.reset_at_eos else -1
        self._noise = probabilities(counts, settings.noise_alpha)
        self.bias = float(LOSSES[settings.loss].bias)
        self.weights = zero_weights(gpu, self.shape)
        self.logit_offsets = gpu.upload(self._offsets(logit_offsets))
        load_tensors(gpu, self.weights, self.shape, parameters.tensors())

    def _offsets(self, function: Callable[..., np.ndarray]) -> np.ndarray:
        settings = self.settings
        return function(settings.loss, self._noise, settings.k, settings.log_z).astype(np.float32)

    # --- training -------------------------------------------------------------------------------------

    def prepare_training(self) -> None:
        gpu, settings, shape = self.gpu, self.settings, self.shape
        network = Network(gpu, self.gemm, shape, self.weights.views, self._batch, self.step_kernels)
        self._training = Training(
            network, self.weights, replace(settings, batch=self._batch), gpu.upload(alias_table(self._noise)),
            gpu.upload(self._offsets(train_offsets)), self._ranks, settings.batch,
        )  # fmt: skip
        rows = self._batch * settings.bptt
        self._staging = cycle([StagingBuffer(gpu, rows, shape.layers) for _ in range(QUEUED + 2)])

    def train(self, minibatch: Minibatch) -> Pending:
        settings, positions = self.settings, minibatch.positions[self._rows]
        batch, steps = positions.shape
        buffer = next(self._staging)
        first = int(positions[0, 0])
        stride = int(positions[1, 0]) - first if batch > 1 else 0
        noise_position = minibatch.number * settings.bptt if settings.noise == "step" else minibatch.number
        dropout = np.array([stream(settings.seed, DROPOUT, minibatch.epoch)])
        keys = draw(dropout, np.arange(self.shape.layers + 1, dtype=np.uint64))
        noise_key = int(stream(settings.seed, NOISE, minibatch.epoch))
        inputs, targets = minibatch.inputs[self._rows], minibatch.targets[self._rows]
        buffer.send(inputs, targets, [first, stride, noise_key, noise_position], keys)
        config = StepConfig(batch, steps, settings.dropout_threshold, self.reset_word, 1 / len(minibatch.inputs))
        self._training.step(buffer.batch, config, minibatch)
        done = self.gpu.copy_out(self._training.result, buffer.result)
        buffer.done = pending = PendingMinibatch(done, buffer.result, minibatch.inputs.size)
        if self._ranks.size == 1:
            return pending
        own = pending.result()
        return Finished(own._replace(loss=self._training.total_loss(own.loss)))

    def log_z(self) -> np.ndarray:
        hidden, rows = self.shape.hidden, min(SAMPLED_ROWS, self._batch)
        y = np.zeros((rows, table_width(self.shape)), np.float32)
        y[:, :hidden] = self._last_states()[0][-1, :rows]
        y[:, hidden] = self.bias
        scores = VocabularyScores(self.gpu, self.gemm, self.shape, rows)
        no_targets = self.gpu.zeros(rows, np.uint64)
        scores.normalize(MatrixView(self.gpu.upload(y)), rows, self.weights.table, self.logit_offsets, no_targets)
        return scores.log_z(rows)

    def flush_lazy_updates(self, step: int, rate: float) -> None:
        if self.settings.exact:
            self._training.flush_all_lazy_updates(step, rate)

    def memory(self) -> dict[str, int]:
        """Return the bytes of the training's arrays; see `Training.memory`."""
        return self._training.memory()

    # --- scoring --------------------------------------------------------------------------------------

    def scorer(self, rows: int) -> "CudaScorer":
        return CudaScorer(self, rows)

    # --- files ----------------------------------------------------------------------------------------

    def parameters(self) -> Tensors:
        return to_tensors(self.gpu, self.weights, self.shape)

    def state(self) -> Tensors:
        settings, state = self.settings, self._training.state
        tensors = row_steps(self.shape, settings, self.gpu.download(state.last_update_step))
        for prefix, kept in optimizer_arrays(settings, state).items():
            tensors |= to_tensors(self.gpu, kept, self.shape, prefix)
        states = zip((HIDDEN_STATE, CELL_STATE), self._last_states(), strict=True)
        return tensors | {name: gather_rows(self._ranks, array) for name, array in states}

    def restore(self, tensors: Mapping[str, np.ndarray]) -> None:
        gpu, training, activations = self.gpu, self._training, self._training.activations
        load_tensors(gpu, self.weights, self.shape, tensors)
        for prefix, kept in optimizer_arrays(self.settings, training.state).items():
            load_tensors(gpu, kept, self.shape, tensors, prefix)
        steps = stacked_row_steps(self.shape, self.settings, tensors)
        if steps is not None:
            gpu.write(training.state.last_update_step, steps.reshape(-1))
        activations.last_rows = self._batch * self.settings.bptt
        for layer, inputs in enumerate(self.shape.inputs):
            state = np.zeros((self._batch, inputs + 1 + self.shape.hidden), np.float32)
            state[:, inputs] = 1
            state[:, inputs + 1 :] = tensors[HIDDEN_STATE][layer, self._rows]
            gpu.write(activations.xh[layer][activations.last_rows :], state)
            gpu.write(activations.c[layer][activations.last_rows :], tensors[CELL_STATE][layer, self._rows])

    def _last_states(self) -> tuple[np.ndarray, np.ndarray]:
        """The states after the last minibatch, (L, B, H): h and c."""
        activations = self._training.activations
        last = slice(activations.last_rows, activations.last_rows + self._batch)
        hidden = [
            self.gpu.download(xh[last])[:, inputs + 1 :]
            for xh, inputs in zip(activations.xh, self.shape.inputs, strict=True)
        ]
        return np.stack(hidden), np.stack([self.gpu.download(c[last]) for c in activations.c])

    def close(self) -> None:
        self.gpu.synchronize()


class CudaScorer:
    """One row of text, with a state of its own and the device's parameters."""

    def __init__(self, device: CudaDevice, steps: int) -> None:
        gpu, shape = device.gpu, device.shape
        self._device = device
        self._network = Network(gpu, device.gemm, shape, device.weights.views, 1, device.step_kernels)
        self._activations = Activations(gpu, shape, 1, steps)
        self._scores = VocabularyScores(gpu, device.gemm, shape, steps)
        self._staging = cycle([StagingBuffer(gpu, steps, shape.layers) for _ in range(2)])  # one read, one filled
        y = np.zeros((steps, table_width(shape)), np.float32)
        y[:, shape.hidden] = device.bias
        self._y = MatrixView(gpu.upload(y))
        self._no_keys = np.zeros(shape.layers + 1, np.uint64)

    def score(self, inputs: np.ndarray, targets: np.ndarray) -> Scores:
        device, rows, (batch, steps) = self._device, inputs.size, inputs.shape
        buffer = self._forward(inputs, targets)
        self._scores.normalize(self._y, rows, device.weights.table, device.logit_offsets, buffer.batch.words)
        log_z = self._scores.log_z(rows)
        target_scores = device.gpu.download(self._scores.normalizers.target_scores)[:rows]
        return Scores((target_scores - log_z).reshape(steps, batch).T, log_z.reshape(steps, batch).T)

    def advance(self, inputs: np.ndarray) -> None:
        buffer = self._forward(inputs, inputs)
        buffer.done = self._device.gpu.event()

    def _forward(self, inputs: np.ndarray, targets: np.ndarray) -> StagingBuffer:
        buffer, (batch, steps) = next(self._staging), inputs.shape
        buffer.send(inputs, targets, [0] * DROPOUT_KEYS, self._no_keys)
        config = StepConfig(batch, steps, reset_word=self._device.reset_word)
        self._network.forward(self._device.weights.table, buffer.batch, config, self._activations, self._y)
        return buffer


def describe(plan: PersistentPlan | None) -> str:
    """How time steps are launched, for reports."""
    return "a launch for each step" if plan is None else f"one launch for all steps, {plan.grid.blocks} blocks"
