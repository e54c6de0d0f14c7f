"""Scoring on the CPU: forward passes and scores of the vocabulary, by the device's team of threads."""

from typing import TYPE_CHECKING, NamedTuple

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


FORWARD_ROWS = 1024  # rows of a forward pass: with more, their gates would leave the cache
FEW_MACS = 12_000_000  # multiplications that take one thread about as long as waking the others


class Piece(NamedTuple):
    """Time steps that are read in one forward pass."""

    batch: InferenceBatch
    config: StepConfig
    y: np.ndarray  # (N, ·): its rows


class CpuScorer:
    """Scores texts on the CPU; see `device.Scorer`.

    The network reads a few time steps at a time. The vocabulary is scored for all of them at once: the output table is
    read from memory once per call.
    """

    def __init__(self, device: "CpuDevice", capacity: int) -> None:
        self.capacity = capacity
        self._device = device
        self._activations = arrays.activations(device.shape, capacity, 1)
        self._projections = Projections(device.shape, capacity)
        self._normalizers = arrays.normalizer_buffers(device.shape, capacity, len(device.team.workers))
        self._layer = OutputLayer(self._activations.y, device.weights.output, device.logit_offsets)
        (self._alone,) = arrays.workers(arrays.partition(device.shape, 1))  # the calling thread, for a few rows
        self._start: State | None = None
        self._is_reset = True

    def reset(self, state: State | None = None) -> None:
        self._start = state
        self._is_reset = True  # the next forward pass knows how many rows it needs

    def parameters_changed(self) -> None:
        self._projections.forget()

    def advance(self, inputs: np.ndarray) -> None:
        self._forward(inputs, _pieces(inputs.shape, None))

    def score(
        self, inputs: np.ndarray, targets: np.ndarray, normalized: bool = True, sizes: np.ndarray | None = None
    ) -> Scores:
        pieces = _pieces(inputs.shape, sizes)
        self._scored = self._order(inputs.shape, pieces)
        rows, by_step = self._scored.size, targets.reshape(-1)[self._scored]
        self._forward(inputs, pieces, by_step if normalized else None)
        if normalized:
            log_z = combine_log_z(self._normalizers, rows)
            log_probabilities = self._normalizers.target_scores[:rows] - log_z
        else:
            log_z = np.zeros(rows)
            log_probabilities = self.target_logits(self._activations.y[:rows], by_step)
        found = np.zeros((2, targets.size))
        found[:, self._scored] = log_probabilities, log_z
        return Scores(*found.reshape(2, *targets.shape))

    def outputs(self) -> np.ndarray:
        rows, units = self._scored.size, self._device.shape.hidden
        outputs = np.empty((rows, units), np.float32)
        outputs[self._scored] = self._activations.y[:rows, :units]
        return outputs.reshape(*self._shape, units)

    def step(self, state: State | None, words: np.ndarray) -> StepOutput:
        h, c, y = self._activations.h, self._activations.c, self._activations.y
        rows, units = len(words), self._device.shape.hidden
        self.reset(state)
        self.advance(words.astype(np.int32)[:, None])
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

    def _order(self, shape: tuple[int, ...], pieces: list[tuple[slice, slice]]) -> np.ndarray:
        """Return the index of each row of y in an array of (B, T) words, flat."""
        self._shape = shape
        index = np.arange(shape[0] * shape[1]).reshape(shape)
        return np.concatenate([rows_by_step(index[piece]) for piece in pieces])

    def _forward(
        self, inputs: np.ndarray, pieces: list[tuple[slice, slice]], targets: np.ndarray | None = None
    ) -> None:
        """Read (B, T) words; y has the rows of all pieces. targets: score them, with normalizers."""
        self._start_states(len(inputs))
        device, read, first = self._device, [], 0
        for piece in pieces:
            words = inputs[piece]
            ids = rows_by_step(words)
            batch = self._projections.batch(ids, device.state_mask(ids, len(words)))
            read.append(Piece(batch, device.config(words.shape), self._activations.y[first : first + ids.size]))
            first += ids.size
        if targets is None and first * device.shape.lstm_macs <= FEW_MACS:
            self._run(read, first, None, self._alone)
        else:
            device.team.results(self._run, read, first, targets)

    def _start_states(self, rows: int) -> None:
        """Write the states that rows start from, after `reset`."""
        if self._is_reset:
            h, c, units = self._activations.h, self._activations.c, self._device.shape.hidden
            h[:, :rows, :units], c[:, :rows, :units] = self._start or (0, 0)
            self._start, self._is_reset = None, False

    def _run(self, pieces: list[Piece], rows: int, targets: np.ndarray | None, worker: Worker) -> None:
        """Run one thread's part."""
        for batch, config, y in pieces:
            activations = self._activations._replace(y=y)
            infer(self._device.weights, activations, self._projections.values, batch, config, worker)
            carry_states(activations, config.batch * config.steps, config.batch, worker)
        if targets is not None:
            score(self._layer, targets, rows, self._normalizers, worker)


def _pieces(shape: tuple[int, ...], sizes: np.ndarray | None) -> list[tuple[slice, slice]]:
    """Divide (B, T) words into pieces for forward passes: rows and time steps of each. sizes: the words of each row,
    longest first; rows that have ended are left out."""
    batch, steps = shape
    ends = [steps] if sizes is None else np.unique(sizes).tolist()
    pieces, first = [], 0
    for end in ends:
        rows = batch if sizes is None else int(np.count_nonzero(sizes >= end))
        width = max(FORWARD_ROWS // rows, 1)
        pieces += [(slice(rows), slice(at, min(at + width, end))) for at in range(first, end, width)]
        first = end
    return pieces


def combine_log_z(buffers: NormalizerBuffers, rows: int) -> np.ndarray:
    """Combine the threads' running sums: log Z of the first `rows` rows, float64."""
    highest = buffers.highest[:, :rows].astype(np.float64)
    top = highest.max(axis=0)
    return np.asarray(top + np.log((buffers.sums[:, :rows] * np.exp(highest - top)).sum(axis=0)))
