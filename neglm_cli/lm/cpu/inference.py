"""The forward pass without training: no dropout, and each distinct word is projected once.

The first layer's x·w_ih + bias depends on the word alone. Its values for frequent words are kept: a lookup takes a
fraction of the product's time.
"""

from typing import NamedTuple

import numpy as np

from neglm_cli.barrier import barrier_wait
from neglm_cli.kernels import kernel, outlined
from neglm_cli.lm.cpu.arrays import panel_shape, zeros
from neglm_cli.lm.cpu.gemm import PANEL
from neglm_cli.lm.cpu.lstm import Dims, LayerActivations, LayerWeights, project_inputs, recur
from neglm_cli.lm.cpu.step import reset_states
from neglm_cli.lm.cpu.tables import copy_vectors
from neglm_cli.lm.cpu.threads import rows_of
from neglm_cli.lm.parameters import Shape

CACHE_VALUES = 1 << 24  # float32 values of kept projections: 64 MB


class InferenceBatch(NamedTuple):
    """The words of a batch, N = B·T rows, and those whose projections are to be computed."""

    slots: np.ndarray  # int64 (N,): of each row's word among the projections
    new_words: np.ndarray  # int32: distinct words
    new_slots: np.ndarray  # int64: their slots
    state_mask: np.ndarray  # float32 (N + B,), as in `BatchArrays`


class Projections:
    """Projections of words: slot w belongs to word w, for the most frequent words; the last `rows` slots are for the
    other words of a single batch."""

    def __init__(self, shape: Shape, rows: int) -> None:
        panels = panel_shape(shape, "bias")[1]
        self._kept = min(shape.words, CACHE_VALUES // (panels * PANEL))
        self._ready = np.zeros(self._kept, bool)
        self.values = zeros(self._kept + min(rows, shape.words), panels, PANEL)

    def forget(self) -> None:
        """Compute all projections anew, because parameters have changed."""
        self._ready[:] = False

    def batch(self, ids: np.ndarray, state_mask: np.ndarray) -> InferenceBatch:
        """Assign slots to words; the new ones are ready once the batch has been read."""
        words, inverse = np.unique(ids, return_inverse=True)
        slots = words.astype(np.int64)
        rare = words >= self._kept
        slots[rare] = self._kept + np.arange(np.count_nonzero(rare))
        new = rare.copy()
        new[~rare] = ~self._ready[words[~rare]]
        self._ready[words[~rare]] = True
        return InferenceBatch(slots[inverse.reshape(-1)], words[new].astype(np.int32), slots[new], state_mask)


@kernel
def infer(weights, activations, projections, batch, config, worker):
    """Compute y of (B, T) words; see `step.forward`."""
    x, gates, h, c, out, y = activations
    layers, units = x.shape[0], weights.w_hh.shape[2]
    rows = config.batch * config.steps
    first, last = rows_of(batch.new_words.size, worker)
    reset_states(activations, batch.state_mask, config.batch, worker)
    copy_vectors(weights.embedding, batch.new_words, x[0], config.embedding, first, last)
    barrier_wait(worker)
    for layer in range(layers):
        of_layer = LayerWeights(weights.w_ih[layer], weights.w_hh[layer], weights.bias[layer])
        if layer == 0:
            project_inputs(of_layer, x[0], gates[0], batch.new_words.size, config.embedding, worker.panels)
            _keep(gates[0], batch.new_slots, projections, worker.panels)
            _recall(projections, batch.slots, gates[0], worker.panels)
        else:
            project_inputs(of_layer, out[layer - 1], gates[layer], rows, units, worker.panels)
        recur(
            of_layer.w_hh, LayerActivations(x[layer], gates[layer], h[layer], c[layer], out[layer]), batch.state_mask,
            Dims(units, config.batch, config.steps), worker.panels, worker,
        )  # fmt: skip
    first, last = rows_of(rows, worker)
    for row in range(first, last):
        for unit in range(units):
            y[row, unit] = out[layers - 1, row, unit]
        y[row, units] = config.bias


@outlined
def _keep(gates, slots, projections, share):
    """Keep the first rows of the thread's panels."""
    for row in range(slots.size):
        for panel in range(share.first, share.last):
            for column in range(PANEL):
                projections[slots[row], panel, column] = gates[panel, row, column]


@outlined
def _recall(projections, slots, gates, share):
    """Copy the projections of all rows to the thread's panels."""
    for row in range(slots.size):
        for panel in range(share.first, share.last):
            for column in range(PANEL):
                gates[panel, row, column] = projections[slots[row], panel, column]
