"""The arrays that a training needs, made for its settings."""

import numpy as np

from neglm_cli.lm.cpu import arrays
from neglm_cli.lm.cpu.arrays import Shares, Weights
from neglm_cli.lm.cpu.batch_parts import part_of_rows
from neglm_cli.lm.cpu.product import PANEL
from neglm_cli.lm.cpu.softmax import BLOCK, ROW
from neglm_cli.lm.cpu.step import Sampling, Training
from neglm_cli.lm.parameters import Shape, padded
from neglm_cli.lm.settings import SHARED, SOFTMAX, TOKEN, Settings

SOFTMAX_ROOM = 1 << 24  # scores that are held at once, unless one row has more
SAMPLED_ROWS = 64  # of which log Z is looked at while training


def training_arrays(
    shape: Shape, settings: Settings, parts: np.ndarray, weights: Weights, gradients: Weights, own: Shares,
    noise_table: np.ndarray, offsets: np.ndarray,
) -> Training:  # fmt: skip
    threads, mode, count = settings.threads, settings.mode, len(parts) - 1
    rows, k = settings.batch * settings.bptt, settings.k
    shared = rows // settings.group_rows * k if mode == SHARED else 0
    places = {SOFTMAX: 1, TOKEN: rows * k + rows, SHARED: count * shared + rows}[mode]
    source_of = np.repeat(np.arange(rows), k + 1) if mode == TOKEN else np.zeros(places)
    part_of = np.tile(part_of_rows(parts), settings.bptt)
    places_part_of = np.repeat(part_of, k + 1) if mode == TOKEN else np.zeros(places)
    sampling = _sampling(shape, settings, mode, shared, count, places, noise_table, offsets)
    room = PANEL * max(*shape.inputs, shape.hidden, k if mode == SHARED else 0, BLOCK if mode == SOFTMAX else 0)
    if mode == SOFTMAX:
        gradients = gradients._replace(output=arrays.zeros(*weights.output.shape))
    return Training(
        weights,
        gradients,
        arrays.weights_like(weights, tables=settings.moments > 1),
        arrays.weights_like(weights, tables=settings.moments > 0),
        np.zeros((2, shape.words if settings.moments > 1 else 1), np.int32),
        arrays.transposed(shape, own),
        own,
        arrays.states(shape, settings.batch, settings.bptt, sampling.source[:rows]),
        arrays.way(shape, settings.batch, settings.bptt, own),
        arrays.scoring(shape, rows if mode == SOFTMAX else SAMPLED_ROWS, threads),
        arrays.touched(shape.words, rows, padded(shape.embedding), np.arange(rows), part_of, count, threads),
        arrays.touched(shape.words, places, padded(shape.hidden + 1), source_of, places_part_of, count, threads),
        sampling,
        parts,
        arrays.zeros(threads, 2, max(room, padded(shape.embedding), padded(shape.hidden + 1))),
    )


def _sampling(
    shape: Shape, settings: Settings, mode: int, shared: int, parts: int, places: int, table: np.ndarray,
    offsets: np.ndarray,
) -> Sampling:  # fmt: skip
    """`shared`: how many shared noise words a minibatch has."""
    rows, width, k = settings.batch * settings.bptt, padded(shape.hidden + 1), settings.k
    panels = -(-k // PANEL)
    blocks = -(-shape.words // BLOCK) if mode == SOFTMAX else 1
    at_once = min(rows, max(1, SOFTMAX_ROOM // shape.words)) if mode == SOFTMAX else 1
    return Sampling(
        table,
        offsets,
        np.zeros(places, np.int32),
        arrays.zeros(rows + parts * shared, width),
        arrays.zeros(max(shared, 1), width),
        arrays.zeros(max(shared // k, 1) * panels, width, PANEL),
        arrays.zeros(rows if mode == SHARED else 1, panels * PANEL),
        arrays.zeros(blocks, at_once, ROW),
        arrays.zeros(blocks, at_once),
        arrays.zeros(settings.threads, at_once, width),
    )
