"""A GPU as a device: a model in its memory, trained and scored by queued launches."""

from collections.abc import Mapping
from itertools import cycle

import numpy as np

from neglm_cli.lm.cuda.arrays import StepConfig, table_width, zero_weights
from neglm_cli.lm.cuda.gemm import MatrixView, TiledGemm
from neglm_cli.lm.cuda.gpu import Gpu, Signal
from neglm_cli.lm.cuda.graphs import GraphCache
from neglm_cli.lm.cuda.losses import VocabularyScores
from neglm_cli.lm.cuda.network import Kernels, Network, PersistentPlan, read_state, write_state
from neglm_cli.lm.cuda.optimizer import LOSS, NORM
from neglm_cli.lm.cuda.scorer import CudaScorer
from neglm_cli.lm.cuda.staging import StagingBuffer, step_values
from neglm_cli.lm.cuda.tensors import load_tensors, to_tensors
from neglm_cli.lm.cuda.training import Training
from neglm_cli.lm.device import Finished, Minibatch, Pending, State, StepResult, Tensors, gather_rows, rows_of_tables
from neglm_cli.lm.parameters import Parameters
from neglm_cli.lm.scalar import dropout_keys
from neglm_cli.lm.setup import LOG_Z_ROWS, DeviceSetup
from neglm_cli.lm.tensors import optimizer_arrays, row_steps, stacked_row_steps
from neglm_cli.lm.trainer import QUEUED
from neglm_cli.objective.noise import noise_positions
from neglm_cli.objective.random import NOISE, stream
from neglm_cli.scale.ranks import SINGLE_RANK, Ranks
from neglm_cli.settings.parameters import AVERAGE, CELL_STATE, HIDDEN_STATE
from neglm_cli.settings.train_lm import Settings


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
        kernels: Kernels | None = None, ranks: Ranks = SINGLE_RANK,
    ) -> None:  # fmt: skip
        self.shape = parameters.shape
        self.settings = settings
        self._setup = DeviceSetup(self.shape, settings, counts, ranks)
        self.gpu = gpu
        self.kernels = kernels or Kernels(TiledGemm(gpu))
        self.reset_word = end_of_line if settings.reset_at_eos else -1
        self.bias = self._setup.bias
        self.weights = zero_weights(gpu, self.shape)
        self.logit_offsets = gpu.upload(self._setup.logit_offsets())
        load_tensors(gpu, self.weights, self.shape, parameters.tensors())

    # --- training -------------------------------------------------------------------------------------

    def prepare_training(self) -> None:
        gpu, shape, batch = self.gpu, self.shape, self._setup.batch
        network = Network(gpu, self.kernels.for_training(), shape, self.weights.views, batch)
        if self.settings.recurrent_dropout_threshold:
            network.allocate_dropped()
        self._training = Training(self._setup, network, self.weights)
        self._graphs = GraphCache(gpu)
        self._has_average = False
        rows = batch * self.settings.bptt
        self._staging = cycle([StagingBuffer(gpu, rows, shape.layers) for _ in range(QUEUED + 2)])

    def train(self, minibatch: Minibatch) -> Pending:
        settings, positions = self.settings, minibatch.positions[self._setup.rows]
        batch, steps = positions.shape
        buffer = next(self._staging)
        first = int(positions[0, 0])
        stride = int(positions[1, 0]) - first if batch > 1 else 0
        noise_position = int(noise_positions(settings.noise, positions, minibatch.number, settings.bptt)[0, 0])
        keys = dropout_keys(settings, minibatch.epoch, minibatch.number, self.shape.layers)
        noise_key = int(stream(settings.seed, NOISE, minibatch.epoch))
        inputs, targets = minibatch.inputs[self._setup.rows], minibatch.targets[self._setup.rows]
        step = step_values(settings.optimizer, minibatch.step, minibatch.rate, minibatch.decay)
        header = [first, stride, noise_key, noise_position, int(keys.words), *step]
        buffer.fill(inputs, targets, header, np.concatenate([keys.units, keys.recurrent]))
        config = StepConfig(
            batch, steps, settings.dropout_threshold, self.reset_word, 1 / len(minibatch.inputs),
            int(settings.variational), settings.embedding_dropout_threshold, settings.recurrent_dropout_threshold,
        )  # fmt: skip
        activations, last_rows = self._training.activations, self._training.activations.last_rows

        def work() -> None:
            activations.last_rows = last_rows  # an attempt to capture changes it
            buffer.send()
            self._training.step(buffer.batch, config, minibatch)
            self.gpu.copy_out(self._training.result, buffer.result)

        if self._setup.ranks.size == 1:
            self._graphs.run((buffer, config, last_rows), work)
        else:  # ranks exchange gradients amid the step
            work()
        activations.last_rows = config.rows
        buffer.done = pending = PendingMinibatch(self.gpu.event(), buffer.result, minibatch.inputs.size)
        if self._setup.ranks.size == 1:
            return pending
        local = pending.result()
        return Finished(local._replace(loss=self._training.total_loss(local.loss)))

    def add_to_average(self, number: int) -> None:
        self._has_average = True
        self._training.add_to_average(number)

    def swap_average(self) -> None:
        self._training.swap_average()

    def log_z(self) -> np.ndarray:
        hidden, rows = self.shape.hidden, min(LOG_Z_ROWS, self._setup.batch)
        y = np.zeros((rows, table_width(self.shape)), np.float32)
        y[:, :hidden] = self._last_state().h[-1, :rows]
        y[:, hidden] = self.bias
        scores = VocabularyScores(self.gpu, self.kernels.gemm, self.shape, rows)
        no_targets = self.gpu.zeros(rows, np.uint64)
        scores.normalize(MatrixView(self.gpu.upload(y)), rows, self.weights.table, self.logit_offsets, no_targets)
        return scores.log_z(rows)

    def flush_lazy_updates(self, step: int, rate: float) -> None:
        if self.settings.exact_adam:
            self._training.flush_all_rows(step, rate)

    def flush_decay(self, step: int, decay: float, inputs: np.ndarray | None, targets: np.ndarray | None) -> None:
        rows = rows_of_tables(self.shape, inputs, targets)
        starts = {table: number * self.shape.words for number, table in enumerate(self.shape.tables)}
        all_rows = np.concatenate([starts[table] + words for table, words in rows.items()])
        self._training.flush_rows(all_rows, step, decay=decay)

    def memory(self) -> dict[str, int]:
        """Return the bytes of the training's arrays; see `Training.memory`."""
        return self._training.memory()

    # --- scoring --------------------------------------------------------------------------------------

    def scorer(self, capacity: int) -> CudaScorer:
        return CudaScorer(self, capacity)

    # --- files ----------------------------------------------------------------------------------------

    def parameters(self) -> Tensors:
        return to_tensors(self.gpu, self.weights, self.shape)

    def state(self) -> Tensors:
        settings, state = self.settings, self._training.state
        tensors = row_steps(self.shape, settings, self.gpu.download(state.last_update_step))
        for prefix, kept in optimizer_arrays(settings, state).items():
            tensors |= to_tensors(self.gpu, kept, self.shape, prefix)
        if self._training.average is not None and self._has_average:
            tensors |= to_tensors(self.gpu, self._training.average, self.shape, AVERAGE)
        states = zip((HIDDEN_STATE, CELL_STATE), self._last_state(), strict=True)
        return tensors | {name: gather_rows(self._setup.ranks, array) for name, array in states}

    def restore(self, tensors: Mapping[str, np.ndarray]) -> None:
        gpu, training = self.gpu, self._training
        load_tensors(gpu, self.weights, self.shape, tensors)
        for prefix, kept in optimizer_arrays(self.settings, training.state).items():
            load_tensors(gpu, kept, self.shape, tensors, prefix)
        self._has_average = f"{AVERAGE}output" in tensors
        if training.average is not None and self._has_average:
            load_tensors(gpu, training.average, self.shape, tensors, AVERAGE)
        steps = stacked_row_steps(self.shape, self.settings, tensors)
        if steps is not None:
            gpu.write(training.state.last_update_step, steps.reshape(-1))
        state = State(tensors[HIDDEN_STATE][:, self._setup.rows], tensors[CELL_STATE][:, self._setup.rows])
        write_state(gpu, self.shape, training.activations, state, self._setup.batch * self.settings.bptt)

    def _last_state(self) -> State:
        """Download the state after the last minibatch."""
        return read_state(self.gpu, self.shape, self._training.activations, self._setup.batch)

    def close(self) -> None:
        self.gpu.synchronize()


def describe(plan: PersistentPlan | None) -> str:
    """Describe how time steps are launched."""
    return "a launch for each step" if plan is None else f"one launch for all steps, {plan.grid.blocks} blocks"
