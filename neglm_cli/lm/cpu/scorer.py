"""Scoring on the CPU: forward passes and scores of the vocabulary, by the device's team of threads."""

from typing import TYPE_CHECKING

import numpy as np

from neglm_cli.lm.cpu import arrays
from neglm_cli.lm.cpu.arrays import StepConfig, rows_by_step
from neglm_cli.lm.cpu.inference import InferenceBatch, Projections, infer
from neglm_cli.lm.cpu.sampled import OutputLayer
from neglm_cli.lm.cpu.softmax import NormalizerBuffers
from neglm_cli.lm.cpu.step import carry_states, score
from neglm_cli.lm.cpu.threads import Worker
from neglm_cli.lm.device import Scores, State, StepOutput

if TYPE_CHECKING:
    from neglm_cli.lm.cpu.device import CpuDevice


class CpuScorer:
    """Scores texts on the CPU; see `device.Scorer`."""

    def __init__(self, device: "CpuDevice", capacity: int) -> None:
        self.capacity = capacity
        self._device = device
        self._activations = arrays.activations(device.shape, capacity, 1)
        self._projections = Projections(device.shape, capacity)
        self._normalizers = arrays.normalizer_buffers(device.shape, capacity, len(device.team.workers))
        self._layer = OutputLayer(self._activations.y, device.weights.output, device.logit_offsets)

    def reset(self) -> None:
        self._activations.h[:] = 0
        self._activations.c[:] = 0

    def parameters_changed(self) -> None:
        self._projections.forget()

    def advance(self, inputs: np.ndarray) -> None:
        self._forward(inputs)

    def score(self, inputs: np.ndarray, targets: np.ndarray, normalized: bool = True) -> Scores:
        batch, steps = self._scored = inputs.shape
        rows, by_step = batch * steps, rows_by_step(targets)
        self._forward(inputs, by_step if normalized else None)
        if normalized:
            log_z = combine_log_z(self._normalizers, rows)
            log_probabilities = self._normalizers.target_scores[:rows] - log_z
        else:
            log_z = np.zeros(rows)
            log_probabilities = self.target_logits(self._activations.y[:rows], by_step)
        return Scores(log_probabilities.reshape(steps, batch).T, log_z.reshape(steps, batch).T)

    def outputs(self) -> np.ndarray:
        batch, steps = self._scored
        rows, units = batch * steps, self._device.shape.hidden
        return self._activations.y[:rows, :units].reshape(steps, batch, units).transpose(1, 0, 2).copy()

    def step(self, state: State | None, words: np.ndarray) -> StepOutput:
        h, c, y = self._activations.h, self._activations.c, self._activations.y
        rows, units = len(words), self._device.shape.hidden
        h[:, :rows, :units], c[:, :rows, :units] = state or (0, 0)
        self._forward(words.astype(np.int32)[:, None])
        return StepOutput(State(h[:, :rows, :units].copy(), c[:, :rows, :units].copy()), y[:rows].copy())

    def log_z(self, y: np.ndarray) -> np.ndarray:
        rows = len(y)
        self._activations.y[:rows] = y
        self._device.team.results(score, self._layer, np.zeros(rows, np.int32), rows, self._normalizers)
        return combine_log_z(self._normalizers, rows)

    def target_logits(self, y: np.ndarray, targets: np.ndarray) -> np.ndarray:
        logits = np.einsum("nh,nh->n", y, self._layer.table[targets]) + self._layer.offsets[targets]
        return np.asarray(logits, np.float64)

    def logits(self, y: np.ndarray) -> np.ndarray:
        return np.asarray(y @ self._layer.table.T + self._layer.offsets)

    def _forward(self, inputs: np.ndarray, targets: np.ndarray | None = None) -> None:
        """Read (B, T) words; y of row t·B + b is that of word (b, t). targets (N,): score them, with normalizers."""
        device = self._device
        ids = rows_by_step(inputs)
        batch = self._projections.batch(ids, device.state_mask(ids, len(inputs)))
        device.team.results(self._run, batch, device.config(inputs.shape), targets)

    def _run(self, batch: InferenceBatch, config: StepConfig, targets: np.ndarray | None, worker: Worker) -> None:
        """Run one thread's part."""
        rows = config.batch * config.steps
        infer(self._device.weights, self._activations, self._projections.values, batch, config, worker)
        if targets is not None:
            score(self._layer, targets, rows, self._normalizers, worker)
        carry_states(self._activations, rows, config.batch, worker)


def combine_log_z(buffers: NormalizerBuffers, rows: int) -> np.ndarray:
    """Combine the threads' running sums: log Z of the first `rows` rows, float64."""
    highest = buffers.highest[:, :rows].astype(np.float64)
    top = highest.max(axis=0)
    return np.asarray(top + np.log((buffers.sums[:, :rows] * np.exp(highest - top)).sum(axis=0)))
