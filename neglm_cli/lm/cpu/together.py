"""Training with other processes: each has some rows of the batch, and all move along the sum of their gradients.

A minibatch is three kernels. After the first one the output table's gradients are on their way, while the second goes
back through the layers; then those of the layers and of the embedding follow in one sum. Parameters are never sent:
they start alike, and move alike.
"""

from typing import Any

import numpy as np

from neglm_cli.lm.cpu.arrays import Touched, Weights, zeros
from neglm_cli.lm.cpu.step import Numbers, Text, Training, go_back, go_there, move_alike
from neglm_cli.lm.device import Minibatch, Trained
from neglm_cli.lm.parameters import Shape, padded
from neglm_cli.lm.settings import SHARED, SOFTMAX
from neglm_cli.scale.ranks import Ranks
from neglm_cli.scale.rows import agree_on_rows, spread

NO_ROWS = np.empty(0, np.int32)


def gradients_behind_each_other(weights: Weights, room: int) -> tuple[Weights, np.ndarray]:
    """Gradients of the layers that lie in one array, which is returned, too, with room for more numbers behind them."""
    sizes = [array.size for array in (weights.w, weights.u, weights.b)]
    flat = zeros(sum(sizes) + room)
    ends = np.cumsum(sizes)
    w, u, b = (
        flat[end - array.size : end].reshape(array.shape)
        for array, end in zip((weights.w, weights.u, weights.b), ends, strict=True)
    )
    return Weights(w, u, b, zeros(1, 1), zeros(1, 1)), flat


class Together:
    def __init__(self, ranks: Ranks, team: Any, shape: Shape, training: Training, flat: np.ndarray) -> None:
        """flat: the gradients of the layers, and room behind them."""
        self._ranks, self._team, self._training = ranks, team, training
        self._flat, self._embedding = flat, shape.embedding
        self._layers = sum(array.size for array in training.gradients[:3])
        self._widths = padded(shape.embedding), padded(shape.hidden + 1)
        self._columns = shape.hidden + 1
        self._rooms = [zeros(1, width) for width in self._widths]

    def train(self, whole: Minibatch, text: Text, numbers: Numbers) -> Trained:
        """whole: the minibatch with the rows of all; text: those of this process."""
        ranks, run = self._ranks, self._team.results
        arguments = (self._training, text, numbers)
        loss = np.array([sum(run(go_there, *arguments))])
        under_way = ranks.start(self._sum_outputs, whole, numbers)
        run(go_back, *arguments)
        inputs = np.unique(whole.inputs).astype(np.int32)
        end = self._layers + len(inputs) * self._embedding
        input_rows = self._flat[self._layers : end].reshape(len(inputs), self._embedding)
        spread(inputs, _parts(self._training.inputs), input_rows)
        rest = ranks.start(self._sum_rest, end, loss)
        outputs, output_rows = under_way.result()
        rest.result()
        norms = run(move_alike, self._training, numbers, inputs, self._padded(0, input_rows), outputs, output_rows)
        return Trained(float(loss[0]), whole.inputs.size, norms[0])

    def _sum_rest(self, end: int, loss: np.ndarray) -> None:
        self._ranks.sum(loss)
        self._ranks.sum(self._flat[:end])

    def _sum_outputs(self, whole: Minibatch, numbers: Numbers) -> tuple[np.ndarray, np.ndarray]:
        """The rows of the output table that somebody has touched, and their gradients."""
        ranks, training = self._ranks, self._training
        if numbers.mode == SOFTMAX:
            ranks.sum(training.gradients.output.reshape(-1))
            return NO_ROWS, self._rooms[1][:0]
        parts = _parts(training.outputs)
        if numbers.mode == SHARED:  # the text and the noise words are known to all
            noise = -(-numbers.batch * numbers.steps // numbers.group_rows) * numbers.k
            words = np.unique(np.concatenate([training.sampling.words[:noise], whole.targets.reshape(-1)]))
        else:
            words = agree_on_rows(ranks, np.concatenate([own for own, _ in parts]))
        rows = np.empty((len(words), self._columns), np.float32)
        spread(words, parts, rows)
        ranks.sum(rows.reshape(-1))
        return words, self._padded(1, rows)

    def _padded(self, table: int, rows: np.ndarray) -> np.ndarray:
        """The same as rows that kernels can use."""
        room = self._rooms[table]
        if len(rows) > len(room):
            room = self._rooms[table] = zeros(len(rows) * 5 // 4, self._widths[table])
        room[: len(rows), : rows.shape[1]] = rows
        return room[: len(rows)]


def _parts(touched: Touched) -> list[tuple[np.ndarray, np.ndarray]]:
    """What each thread has gathered: rows, and their gradients."""
    counts = touched.found[:, 0].tolist()
    return [(touched.distinct[i, :n], touched.gradients[i, :n]) for i, n in enumerate(counts)]
