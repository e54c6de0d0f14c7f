"""The CPU as a device: a model in its memory, trained and scored by a team of threads."""

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import numpy as np

from neglm_cli.kernels import compiled_together
from neglm_cli.lm.cpu import arrays
from neglm_cli.lm.cpu.arrays import BatchArrays, StepConfig, rows_by_step
from neglm_cli.lm.cpu.data_parallel import DataParallel
from neglm_cli.lm.cpu.sampled import OutputLayer
from neglm_cli.lm.cpu.scorer import CpuScorer, combine_log_z
from neglm_cli.lm.cpu.step import score
from neglm_cli.lm.cpu.tensors import load_tensors, pack_parameters, to_tensors
from neglm_cli.lm.cpu.threads import CallingThread, Team
from neglm_cli.lm.cpu.training import Training
from neglm_cli.lm.device import Finished, Minibatch, Pending, StepResult, Tensors, gather_rows, rows_of_tables
from neglm_cli.lm.optimizers import KINDS
from neglm_cli.lm.parameters import Parameters, Shape, zero_parameters
from neglm_cli.lm.scalar import dropout_keys, dropout_mask, dropout_positions
from neglm_cli.lm.setup import DeviceSetup
from neglm_cli.lm.tensors import optimizer_arrays, row_steps, stacked_row_steps
from neglm_cli.objective.noise import noise_positions
from neglm_cli.objective.random import NOISE, stream
from neglm_cli.scale.ranks import SINGLE_RANK, Ranks
from neglm_cli.settings.parameters import AVERAGE, CELL_STATE, HIDDEN_STATE
from neglm_cli.settings.train_lm import Settings


class PendingMinibatch:
    def __init__(self, parts: list[Future[Any]], words: int) -> None:
        self._parts = parts
        self._words = words

    def result(self) -> StepResult:
        parts = [part.result() for part in self._parts]
        return StepResult(sum(loss for loss, _ in parts), self._words, parts[0][1])


class CpuDevice:
    """A model with its counts, for scoring; `prepare_training` makes the arrays for training, too."""

    def __init__(
        self,
        parameters: Parameters,
        settings: Settings,
        counts: np.ndarray,
        end_of_line: int,
        ranks: Ranks = SINGLE_RANK,
    ) -> None:
        self.shape = parameters.shape
        self.settings = settings
        self._setup = DeviceSetup(self.shape, settings, counts, ranks)
        self._end_of_line = end_of_line
        self.logit_offsets = self._setup.logit_offsets()
        self._owned = arrays.partition(self.shape, settings.threads)
        self.team = Team(arrays.workers(self._owned))
        self.weights = pack_parameters(parameters)

    # --- training -------------------------------------------------------------------------------------

    def prepare_training(self) -> None:
        ranks = self._setup.ranks
        self._training = Training(self._setup, self.weights, self.team, self._owned)
        self._training.transpose()
        self._has_average = False
        self._parallel = DataParallel(ranks, self._training) if ranks.size > 1 else None

    def train(self, minibatch: Minibatch) -> Pending:
        batch, config = self._rows_of(minibatch)
        if self._parallel is not None:
            return Finished(self._parallel.step(minibatch, batch, config))
        parts = self.team.start(self._training.step, batch, config)
        return PendingMinibatch(parts, minibatch.inputs.size)

    def _rows_of(self, minibatch: Minibatch) -> tuple[BatchArrays, StepConfig]:
        """Return this rank's rows of a minibatch, and the configuration of its step."""
        inputs, targets, positions = (array[self._setup.rows] for array in minibatch[:3])
        batch = self.batch_arrays(inputs, targets, positions, minibatch.epoch, minibatch.number)
        return batch, self.config(inputs.shape, minibatch)

    def config(self, shape: tuple[int, ...], minibatch: Minibatch | None = None) -> StepConfig:
        """Return the configuration of a step on (B, T) words; without a minibatch, that of scoring."""
        settings = self.settings
        batch, steps = shape
        if minibatch is None:
            return StepConfig(batch, steps, settings.embedding, 0, 0, self._setup.bias, np.float32(0), 0.0, 0, 0, 0.0)
        return StepConfig(
            batch, steps, settings.embedding, settings.dropout_threshold, settings.recurrent_dropout_threshold,
            self._setup.bias, np.float32(1 / len(minibatch.inputs)), float(settings.clip), KINDS[settings.optimizer],
            minibatch.step, float(minibatch.rate), float(minibatch.decay),
        )  # fmt: skip

    def batch_arrays(
        self, inputs: np.ndarray, targets: np.ndarray, positions: np.ndarray, epoch: int = 0, number: int = 0
    ) -> BatchArrays:
        """Make the arrays that kernels take for (B, T) words."""
        settings = self.settings
        ids = rows_by_step(inputs)
        drawn_for = rows_by_step(noise_positions(settings.noise, positions, number, settings.bptt))
        noise_key = stream(settings.seed, NOISE, epoch)
        keys = dropout_keys(settings, epoch, number, self.shape.layers)
        dropped_for = rows_by_step(dropout_positions(settings, positions))
        scale = dropout_mask(keys.words, ids.astype(np.uint64), settings.embedding_dropout_threshold)
        return BatchArrays(
            ids, rows_by_step(targets), self.state_mask(ids, len(inputs)), scale, dropped_for, drawn_for, noise_key,
            keys.units, keys.recurrent,
        )  # fmt: skip

    def state_mask(self, ids: np.ndarray, batch: int) -> np.ndarray:
        """Return 0 for time steps that start from a zero state, else 1: float32 (N + B,). ids (N,): inputs."""
        mask = np.ones(len(ids) + batch, np.float32)
        if self.settings.reset_at_eos:
            mask[: len(ids)] = ids != self._end_of_line
        return mask

    def add_to_average(self, number: int) -> None:
        self._has_average = True
        self.team.start(self._training.add_to_average, number)

    def swap_average(self) -> None:
        self.team.results(self._training.swap_average)

    def log_z(self) -> np.ndarray:
        y, buffers, hidden = self._training.log_z_y, self._training.log_z_buffers, self.shape.hidden
        rows = len(y)
        y[:, :hidden] = self._training.activations.h[-1, :rows, :hidden]
        y[:, hidden] = self._setup.bias
        layer = OutputLayer(y, self.weights.output, self.logit_offsets)
        self.team.results(score, layer, np.zeros(rows, np.int32), rows, buffers)
        return combine_log_z(buffers, rows)

    def flush_lazy_updates(self, step: int, rate: float) -> None:
        self._training.flush_lazy_updates(step, rate)

    def flush_decay(self, step: int, decay: float, inputs: np.ndarray | None, targets: np.ndarray | None) -> None:
        for table, rows in rows_of_tables(self.shape, inputs, targets).items():
            self.team.results(self._training.flush_decay, table, rows, step, decay)

    # --- scoring --------------------------------------------------------------------------------------

    def scorer(self, capacity: int) -> CpuScorer:
        return CpuScorer(self, capacity)

    # --- files ----------------------------------------------------------------------------------------

    def parameters(self) -> Tensors:
        return to_tensors(self.weights, self.shape)

    def state(self) -> Tensors:
        training, hidden = self._training, self.shape.hidden
        tensors = row_steps(self.shape, self.settings, training.state.last_update_step)
        for prefix, kept in optimizer_arrays(self.settings, training.state).items():
            tensors |= to_tensors(kept, self.shape, prefix)
        if training.average is not None and self._has_average:
            tensors |= to_tensors(training.average, self.shape, AVERAGE)
        for name, array in ((HIDDEN_STATE, training.activations.h), (CELL_STATE, training.activations.c)):
            tensors[name] = gather_rows(self._setup.ranks, array[:, : self._setup.batch, :hidden])
        return tensors

    def restore(self, tensors: Mapping[str, np.ndarray]) -> None:
        training, hidden = self._training, self.shape.hidden
        load_tensors(self.weights, self.shape, tensors)
        for prefix, kept in optimizer_arrays(self.settings, training.state).items():
            load_tensors(kept, self.shape, tensors, prefix)
        self._has_average = f"{AVERAGE}output" in tensors
        if training.average is not None and self._has_average:
            load_tensors(training.average, self.shape, tensors, AVERAGE)
        for name, array in ((HIDDEN_STATE, training.activations.h), (CELL_STATE, training.activations.c)):
            array[:, : self._setup.batch, :hidden] = tensors[name][:, self._setup.rows]
        steps = stacked_row_steps(self.shape, self.settings, tensors)
        if steps is not None:
            training.state.last_update_step[:] = steps
        training.transpose()

    def close(self) -> None:
        self.team.close()


def load_kernels(settings: Settings, training: bool) -> None:
    """Load or compile the kernels that a run with these settings needs, by running a model of the smallest size.

    Callers do this before they start a timer, and in a thread that can be interrupted.
    """
    with compiled_together():
        _run_tiny_model(settings, training)
    _run_tiny_model(settings, training)


def _run_tiny_model(settings: Settings, training: bool) -> None:
    tiny = replace(settings, k=1, hidden=1, layers=1, embedding=1, batch=1, bptt=1, threads=1)
    device = CpuDevice(zero_parameters(Shape(3, 1, 1, 1)), tiny, np.ones(3), 0)
    words = np.zeros((1, 1), np.int32)
    (worker,) = device.team.workers
    device.team = CallingThread([worker])  # whose kernels `compiled_together` collects
    if training:
        device.prepare_training()
        minibatch = Minibatch(words, words, np.ones((1, 1), np.uint64), 0, 0, 1, 0.0)
        device._training.step(*device._rows_of(minibatch), worker)
        if settings.average:
            device._training.add_to_average(1, worker)
            device._training.swap_average(worker)
        device.log_z()
    CpuScorer(device, 1).score(words, words)
    device.close()
