"""The CPU as a device: a model in its memory, trained and scored by a team of threads."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from neglm_cli.lm.cpu import arrays
from neglm_cli.lm.cpu.arrays import BatchArrays, StepConfig
from neglm_cli.lm.cpu.batch_parts import batch_parts
from neglm_cli.lm.cpu.data_parallel import DataParallel, contiguous_gradients
from neglm_cli.lm.cpu.sampled import OutputLayer
from neglm_cli.lm.cpu.softmax import NormalizerBuffers
from neglm_cli.lm.cpu.step import carry_states, forward, score
from neglm_cli.lm.cpu.tensors import load_tensors, pack_parameters, to_tensors
from neglm_cli.lm.cpu.threads import Team, Worker
from neglm_cli.lm.cpu.training import Training
from neglm_cli.lm.device import Finished, Minibatch, Pending, Scores, StepResult, Tensors, gather_rows
from neglm_cli.lm.optimizers import KINDS
from neglm_cli.lm.parameters import Parameters, Shape, zero_parameters
from neglm_cli.lm.tensors import optimizer_arrays, row_steps, stacked_row_steps
from neglm_cli.objective.losses import LOSSES, logit_offsets, train_offsets
from neglm_cli.objective.noise import alias_table, probabilities
from neglm_cli.objective.random import DROPOUT, NOISE, draw, stream
from neglm_cli.scale.ranks import SINGLE_RANK, Ranks, split_evenly
from neglm_cli.settings.parameters import CELL_STATE, HIDDEN_STATE
from neglm_cli.settings.train_lm import Settings


class State(NamedTuple):
    """Of some rows of text: float32 (L, B, H) each."""

    h: np.ndarray
    c: np.ndarray

    def of(self, rows: np.ndarray) -> "State":
        return State(self.h[:, rows], self.c[:, rows])


class NextState(NamedTuple):
    """After one more word."""

    state: State
    y: np.ndarray  # (B, ·)
    log_z: np.ndarray  # float64 (B,)


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
        self._ranks = ranks
        starts = split_evenly(settings.batch, ranks.size)
        self._rows = slice(starts[ranks.rank], starts[ranks.rank + 1])  # of the batch: those of this process
        self._batch = self._rows.stop - self._rows.start
        self._end_of_line = end_of_line
        self._noise = probabilities(counts, settings.noise_alpha)
        self.logit_offsets = self._offsets(logit_offsets)
        self.bias = np.float32(LOSSES[settings.loss].bias)
        self._owned = arrays.partition(self.shape, settings.threads)
        self.team = Team(arrays.workers(self._owned))
        self.weights = pack_parameters(parameters)

    def _offsets(self, function: Callable[..., np.ndarray]) -> np.ndarray:
        settings = self.settings
        return function(settings.loss, self._noise, settings.k, settings.log_z).astype(np.float32)

    # --- training -------------------------------------------------------------------------------------

    def prepare_training(self) -> None:
        shape, ranks, settings = self.shape, self._ranks, self.settings
        extra = settings.batch * settings.bptt * shape.embedding if ranks.size > 1 else 0
        gradients, flat = contiguous_gradients(self.weights, extra)
        self._training = Training(
            shape, replace(settings, batch=self._batch), self.weights, gradients,
            batch_parts(settings.batch, ranks.rank, ranks.size), alias_table(self._noise), self._offsets(train_offsets),
            self.team, self._owned,
        )  # fmt: skip
        self._training.transpose()
        self._parallel = DataParallel(ranks, self._training, flat) if ranks.size > 1 else None

    def train(self, minibatch: Minibatch) -> Pending:
        batch, config = self._rows_of(minibatch)
        if self._parallel is not None:
            return Finished(self._parallel.step(minibatch, batch, config))
        parts = self.team.start(self._training.step, batch, config)
        return PendingMinibatch(parts, minibatch.inputs.size)

    def _rows_of(self, minibatch: Minibatch) -> tuple[BatchArrays, StepConfig]:
        """This rank's rows of a minibatch, and the configuration of its step."""
        inputs, targets, positions = (array[self._rows] for array in minibatch[:3])
        batch = self.batch_arrays(inputs, targets, positions, minibatch.epoch, minibatch.number)
        return batch, self.config(inputs.shape, minibatch)

    def config(self, shape: tuple[int, ...], minibatch: Minibatch | None = None) -> StepConfig:
        """The configuration of a step on (B, T) words; without a minibatch, that of scoring."""
        settings = self.settings
        batch, steps = shape
        if minibatch is None:
            return StepConfig(batch, steps, settings.embedding, 0, self.bias, np.float32(0), 0.0, 0, 0, 0.0)
        return StepConfig(
            batch, steps, settings.embedding, settings.dropout_threshold, self.bias,
            np.float32(1 / len(minibatch.inputs)), float(settings.clip), KINDS[settings.optimizer], minibatch.step,
            float(minibatch.rate),
        )  # fmt: skip

    def batch_arrays(
        self, inputs: np.ndarray, targets: np.ndarray, positions: np.ndarray, epoch: int = 0, number: int = 0
    ) -> BatchArrays:
        """What kernels need to know of (B, T) words."""
        settings = self.settings
        batch, steps = inputs.shape
        ids, by_step = _by_step(inputs), _by_step(positions)
        state_mask = np.ones(len(ids) + batch, np.float32)
        if settings.reset_at_eos:
            state_mask[: len(ids)] = ids != self._end_of_line
        first = number * settings.bptt
        noise_positions = {
            "token": by_step,
            "step": np.arange(first, first + steps, dtype=np.uint64),
            "batch": np.array([number], np.uint64),
        }[settings.noise]
        dropout = np.array([stream(settings.seed, DROPOUT, epoch)])
        keys = draw(dropout, np.arange(self.shape.layers + 1, dtype=np.uint64))
        noise_key = stream(settings.seed, NOISE, epoch)
        return BatchArrays(ids, _by_step(targets), state_mask, by_step, noise_positions, noise_key, keys)

    def log_z(self) -> np.ndarray:
        y, buffers, hidden = self._training.log_z_y, self._training.log_z_buffers, self.shape.hidden
        rows = len(y)
        y[:, :hidden] = self._training.activations.h[-1, :rows, :hidden]
        y[:, hidden] = self.bias
        layer = OutputLayer(y, self.weights.output, self.logit_offsets)
        self.team.results(score, layer, np.zeros(rows, np.int32), rows, buffers)
        return _log_z(buffers, rows)

    def flush_lazy_updates(self, step: int, rate: float) -> None:
        self._training.flush_lazy_updates(step, rate)

    # --- scoring --------------------------------------------------------------------------------------

    def scorer(self, rows: int) -> "CpuScorer":
        return CpuScorer(self, rows)

    # --- files ----------------------------------------------------------------------------------------

    def parameters(self) -> Tensors:
        return to_tensors(self.weights, self.shape)

    def state(self) -> Tensors:
        training, hidden = self._training, self.shape.hidden
        tensors = row_steps(self.shape, self.settings, training.state.last_update_step)
        for prefix, kept in optimizer_arrays(self.settings, training.state).items():
            tensors |= to_tensors(kept, self.shape, prefix)
        for name, array in ((HIDDEN_STATE, training.activations.h), (CELL_STATE, training.activations.c)):
            tensors[name] = gather_rows(self._ranks, array[:, : self._batch, :hidden])
        return tensors

    def restore(self, tensors: Mapping[str, np.ndarray]) -> None:
        training, hidden = self._training, self.shape.hidden
        load_tensors(self.weights, self.shape, tensors)
        for prefix, kept in optimizer_arrays(self.settings, training.state).items():
            load_tensors(kept, self.shape, tensors, prefix)
        for name, array in ((HIDDEN_STATE, training.activations.h), (CELL_STATE, training.activations.c)):
            array[:, : self._batch, :hidden] = tensors[name][:, self._rows]
        steps = stacked_row_steps(self.shape, self.settings, tensors)
        if steps is not None:
            training.state.last_update_step[:] = steps
        training.transpose()

    def close(self) -> None:
        self.team.close()


class CpuScorer:
    """Reads texts, with a state of its own and the device's parameters: B rows of T words at a time, in all at most
    `rows` words. One B goes on where the last call ended, if it was the same B."""

    def __init__(self, device: CpuDevice, rows: int) -> None:
        self._device = device
        self._states = arrays.activations(device.shape, rows, 1)
        self._room = arrays.normalizer_buffers(device.shape, rows, len(device.team.workers))

    def score(self, inputs: np.ndarray, targets: np.ndarray) -> Scores:
        self._run(inputs, targets, scored=True)
        batch, steps = inputs.shape
        log_z = _log_z(self._room, batch * steps)
        scores = self._room.target_scores[: batch * steps] - log_z
        return Scores(scores.reshape(steps, batch).T, log_z.reshape(steps, batch).T)

    def advance(self, inputs: np.ndarray) -> None:
        self._run(inputs, inputs, scored=False)

    def score_unnormalized(self, inputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Scores that nothing normalises, in place of log-probabilities: float64 (B, T). They take no time for words
        that are no targets."""
        self._run(inputs, targets, scored=False)
        batch, steps = inputs.shape
        scores = self.scores_of(self._states.y[: batch * steps], _by_step(targets))
        return scores.reshape(steps, batch).T

    def step(self, state: "State", words: np.ndarray, scored: bool = True) -> "NextState":
        """Read one more word in each row of a state, which is left as it is; B rows at most as many as words."""
        batch, hidden = len(words), self._device.shape.hidden
        states = self._states
        for array, given in ((states.h, state.h), (states.c, state.c)):
            array[:, :batch, :hidden] = given
        inputs = words.astype(np.int32)[:, None]
        self._run(inputs, inputs, scored)
        after = State(states.h[:, :batch, :hidden].copy(), states.c[:, :batch, :hidden].copy())
        log_z = _log_z(self._room, batch) if scored else np.zeros(batch)
        return NextState(after, states.y[:batch].copy(), log_z)

    def reset(self) -> None:
        """Go back to no state."""
        self._states.h[:] = 0
        self._states.c[:] = 0

    def zero_state(self, batch: int) -> "State":
        shape = self._device.shape
        return State(*(np.zeros((shape.layers, batch, shape.hidden), np.float32) for _ in range(2)))

    def scores_of(self, y: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """float64: of word ids[i] after y[i]; without log Z."""
        device = self._device
        scores = np.einsum("nh,nh->n", y, device.weights.output[ids]) + device.logit_offsets[ids]
        return np.asarray(scores, np.float64)

    def all_scores(self, y: np.ndarray) -> np.ndarray:
        """float32 (B, V); without log Z."""
        device = self._device
        return np.asarray(y @ device.weights.output.T + device.logit_offsets)

    def _run(self, inputs: np.ndarray, targets: np.ndarray, scored: bool) -> None:
        device = self._device
        batch = device.batch_arrays(inputs, targets, np.zeros(inputs.shape, np.uint64))
        device.team.results(self._score, batch, device.config(inputs.shape), scored)

    def _score(self, batch: BatchArrays, config: StepConfig, scored: bool, worker: Worker) -> None:
        """Read a text on, as every thread of the team does."""
        device, rows = self._device, config.batch * config.steps
        forward(device.weights, self._states, batch, config, worker)
        if scored:
            layer = OutputLayer(self._states.y, device.weights.output, device.logit_offsets)
            score(layer, batch.targets, rows, self._room, worker)
        carry_states(self._states, rows, config.batch, worker)


def load_kernels(settings: Settings, training: bool) -> None:
    """Load or compile the kernels that a run with these settings needs, with the smallest model there is.

    Done before work is timed, and in a thread that can be interrupted.
    """
    tiny = replace(settings, k=1, hidden=1, layers=1, embedding=1, batch=1, bptt=1, threads=1)
    device = CpuDevice(zero_parameters(Shape(3, 1, 1, 1)), tiny, np.ones(3), 0)
    words = np.zeros((1, 1), np.int32)
    (worker,) = device.team.workers
    if training:
        device.prepare_training()
        minibatch = Minibatch(words, words, np.ones((1, 1), np.uint64), 0, 0, 1, 0.0)
        device._training.step(*device._rows_of(minibatch), worker)
        device.log_z()
    CpuScorer(device, 1).score(words, words)
    device.close()


def _by_step(array: np.ndarray) -> np.ndarray:
    """Rows (t·B + b) from (B, T)."""
    return np.ascontiguousarray(array.T).reshape(-1)


def _log_z(room: NormalizerBuffers, rows: int) -> np.ndarray:
    """float64 (rows,): the threads' parts together."""
    highest = room.highest[:, :rows].astype(np.float64)
    top = highest.max(axis=0)
    return np.asarray(top + np.log((room.sums[:, :rows] * np.exp(highest - top)).sum(axis=0)))
