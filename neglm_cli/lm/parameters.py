"""The parameters of a model, in the order and form in which files have them."""

from typing import NamedTuple

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.objective.random import START, draw, stream, unit
from neglm_cli.simd import ROW_UNIT, aligned

ROWS_AT_ONCE = 4096


def padded(width: int) -> int:
    """The length of a row in memory."""
    return -(-width // ROW_UNIT) * ROW_UNIT


class Shape(NamedTuple):
    words: int  # V
    embedding: int  # D
    hidden: int  # H
    layers: int  # L

    def parameters(self, bias: bool) -> int:
        """The number of parameters of a model whose words have a learned bias, or have none."""
        gates = sum(4 * self.hidden * (inputs + self.hidden + 1) for inputs in self.inputs)
        return self.words * (self.embedding + self.hidden + bias) + gates

    @property
    def inputs(self) -> list[int]:
        """Of each layer."""
        return [self.embedding] + [self.hidden] * (self.layers - 1)


class Layer(NamedTuple):
    """Columns are the gates i, f, g and o, H of each, one gate behind the other."""

    input: np.ndarray  # float32 (D, 4H); (H, 4H) behind the first layer
    recurrent: np.ndarray  # float32 (H, 4H)
    bias: np.ndarray  # float32 (4H,)


class Parameters(NamedTuple):
    """Rows of the two tables are padded with zeros; those of `output` have the word's bias behind the H weights."""

    shape: Shape
    embedding: np.ndarray  # float32 (V, padded(D))
    layers: tuple[Layer, ...]
    output: np.ndarray  # float32 (V, padded(H + 1))


def table(rows: int, width: int) -> np.ndarray:
    try:
        return aligned(rows * padded(width)).reshape(rows, padded(width))
    except (MemoryError, ValueError) as error:
        raise NeglmError(
            f"a table of {rows:,} words by {width:,} numbers takes {rows * padded(width) * 4:,} bytes of memory, more "
            "than there are: use a smaller model, or a vocabulary with fewer words"
        ) from error


def start(shape: Shape, seed: int, init: float, init_output: float, bias: float) -> Parameters:
    """Everything even between -init and init; the output table between -init_output and init_output."""
    key = stream(seed, START)
    tensors = iter(range(1 << 30))

    def next_key() -> np.ndarray:
        return draw(np.array([key]), np.array([next(tensors)], np.uint64))

    def even(place: np.ndarray, first: int, count: int, most: float) -> np.ndarray:
        bits = draw(place, np.arange(first, first + count, dtype=np.uint64))
        return (np.float32(2) * unit(bits) - np.float32(1)) * np.float32(most)

    def weights(*dimensions: int) -> np.ndarray:
        return even(next_key(), 0, int(np.prod(dimensions)), init).reshape(dimensions)

    def rows(width: int, room: int, most: float) -> np.ndarray:
        place = next_key()
        result = table(shape.words, room)
        for first in range(0, shape.words if most else 0, ROWS_AT_ONCE):
            count = min(ROWS_AT_ONCE, shape.words - first)
            values = even(place, first * width, count * width, most)
            result[first : first + count, :width] = values.reshape(count, width)
        return result

    embedding = rows(shape.embedding, shape.embedding, init)
    output = rows(shape.hidden, shape.hidden + 1, init_output)
    if bias:  # else the rows stay untouched, and take no memory yet
        output[:, shape.hidden] = bias
    layers = tuple(
        Layer(
            weights(shape.hidden if layer else shape.embedding, 4 * shape.hidden),
            weights(shape.hidden, 4 * shape.hidden),
            weights(4 * shape.hidden),
        )
        for layer in range(shape.layers)
    )
    return Parameters(shape, embedding, layers, output)
