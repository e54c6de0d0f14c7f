"""The parameters of a model in host memory, with the shapes and initial values that `settings.parameters` declares."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.objective.losses import initial_bias
from neglm_cli.objective.random import INIT, draw, stream, unit
from neglm_cli.settings import parameters as spec
from neglm_cli.settings.parameters import Dimension, ParameterSpec
from neglm_cli.settings.train_lm import Settings
from neglm_cli.simd import ROW_UNIT, aligned

BLOCK_ROWS = 4096  # rows of a table that are copied or filled at a time


def padded(width: int) -> int:
    """Return the length of a row in memory."""
    return -(-width // ROW_UNIT) * ROW_UNIT


class Shape(NamedTuple):
    words: int  # V
    embedding: int  # D
    hidden: int  # H
    layers: int  # L
    tied: bool = False  # True if the output table is also the embedding; then D = H

    @classmethod
    def of(cls, words: int, settings: Settings) -> "Shape":
        return cls(words, settings.embedding, settings.hidden, settings.layers, settings.tie)

    @property
    def inputs(self) -> list[int]:
        """Inputs of each layer."""
        return [self._lengths[spec.layer_inputs(layer, self.tied)] for layer in range(self.layers)]

    @property
    def lstm_macs(self) -> int:
        """Multiply-adds of the LSTM layers for one word, in the forward pass."""
        return sum(4 * self.hidden * (inputs + self.hidden) for inputs in self.inputs)

    @property
    def _lengths(self) -> dict[str, int]:
        return {"V": self.words, "D": self.embedding, "H": self.hidden}

    @property
    def specs(self) -> list[ParameterSpec]:
        """All parameters of the model."""
        return spec.parameters(self.layers, self.tied)

    @property
    def tables(self) -> list[str]:
        """The tables of the model."""
        return list(spec.tables(self.tied))

    @property
    def input_vectors(self) -> str:
        """The parameter that has the input vectors of words."""
        return "output" if self.tied else "embedding"

    def size(self, parameter: ParameterSpec) -> tuple[int, ...]:
        """Return the shape of a parameter's tensor, in numbers."""
        return tuple(Dimension.parse(expression).length(self._lengths) for expression in parameter.shape)

    def columns(self, parameter: ParameterSpec) -> slice | int:
        """Return the columns of a parameter in its table; a number if its tensor is a vector."""
        sharing = [each for each in self.specs if each.table == parameter.table]
        start = sum(math.prod(self.size(each)[1:]) for each in sharing[: sharing.index(parameter)])
        size = self.size(parameter)
        return slice(start, start + size[1]) if len(size) > 1 else start

    def width(self, table: str) -> int:
        """Return the number of values in a table's rows, without padding."""
        return sum(math.prod(self.size(each)[1:]) for each in self.specs if each.table == table)

    def parameters(self, bias: bool) -> int:
        """Count the parameters. bias: words have learned biases."""
        return sum(math.prod(self.size(each)) for each in self.specs if bias or each.name != "output_bias")


class Parameters(NamedTuple):
    """Parameters as they are initialized or loaded, before a device has them."""

    shape: Shape
    tables: dict[str, np.ndarray]  # float32 (V, padded width) each; see `Shape.columns`
    dense: dict[str, np.ndarray]  # by name, float32

    def tensors(self) -> dict[str, np.ndarray]:
        """Return views of all parameters, by name and in the shapes of files."""
        shape = self.shape
        tables = {each.name: self.tables[each.table][:, shape.columns(each)] for each in shape.specs if each.table}
        return tables | self.dense


def zero_parameters(shape: Shape) -> Parameters:
    """Allocate parameters, all 0. Rows of tables take no memory until they are written."""
    dense = {each.name: np.zeros(shape.size(each), np.float32) for each in shape.specs if not each.table}
    return Parameters(shape, {table: _zero_table(shape.words, shape.width(table)) for table in shape.tables}, dense)


def initial_parameters(shape: Shape, settings: Settings) -> Parameters:
    """Draw the parameters that a training starts from."""
    if settings.bias_init is None:
        settings = replace(settings, bias_init=initial_bias(settings.loss, shape.words))
    made = zero_parameters(shape)
    tensors, streams, key = made.tensors(), 0, stream(settings.seed, INIT)
    for each in shape.specs:
        if each.constant:
            value = getattr(settings, each.constant)
            if value:
                tensors[each.name][...] = value
            continue
        limit = getattr(settings, each.uniform)
        if limit:
            _draw_uniform(tensors[each.name], draw(np.array([key]), np.array([streams], np.uint64)), limit)
        streams += 1
    return made


def _draw_uniform(tensor: np.ndarray, key: np.ndarray, limit: float) -> None:
    """Fill a tensor with values uniform in [-limit, limit], some rows at a time."""
    rows = tensor[:, None] if tensor.ndim == 1 else tensor
    width = rows.shape[1]
    for part in blocks_of_rows(len(rows)):
        block, first = rows[part], part.start * width
        bits = draw(key, np.arange(first, first + block.size, dtype=np.uint64))
        block[:] = ((np.float32(2) * unit(bits) - np.float32(1)) * np.float32(limit)).reshape(block.shape)


def blocks_of_rows(rows: int) -> Iterator[slice]:
    """Divide the rows of a table into blocks, to avoid a copy of the whole table."""
    for start in range(0, rows, BLOCK_ROWS):
        yield slice(start, min(start + BLOCK_ROWS, rows))


def _zero_table(rows: int, width: int) -> np.ndarray:
    try:
        return aligned(rows * padded(width)).reshape(rows, padded(width))
    except (MemoryError, ValueError) as error:
        raise NeglmError(
            f"a table of {rows:,} words by {width:,} values takes {rows * padded(width) * 4:,} bytes, more memory than "
            "there is: use a smaller model, or a vocabulary with fewer words"
        ) from error
