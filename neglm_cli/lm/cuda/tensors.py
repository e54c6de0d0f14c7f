"""Parameters between the tensors of files and the arrays of GPU kernels."""

from collections.abc import Iterator, Mapping

import numpy as np

from neglm_cli.lm.cuda.arrays import Weights, layer_rows, table_width
from neglm_cli.lm.cuda.gpu import Array, Gpu
from neglm_cli.lm.device import Tensors
from neglm_cli.lm.parameters import Shape

ROWS_AT_ONCE = 4096  # of tables, copied at a time


class DeviceColumns:
    """Columns of some rows of the table, downloaded some rows at a time, for files."""

    def __init__(self, gpu: Gpu, rows: Array, columns: slice) -> None:
        self.shape = (len(rows), columns.stop - columns.start)
        self.dtype = np.dtype(np.float32)
        self._gpu, self._rows, self._columns = gpu, rows, columns

    def blocks(self) -> Iterator[np.ndarray]:
        for start in range(0, len(self._rows), ROWS_AT_ONCE):
            end = min(start + ROWS_AT_ONCE, len(self._rows))
            yield np.ascontiguousarray(self._gpu.download(self._rows[start:end])[:, self._columns])


def to_tensors(gpu: Gpu, weights: Weights, shape: Shape, prefix: str = "") -> Tensors:
    """Return weights, or arrays like them, as tensors of a file."""
    tensors: Tensors = {}
    layers = [gpu.download(view) for view in weights.views]
    for spec in shape.specs:
        name = prefix + spec.name
        if not spec.table:
            tensors[name] = layers[spec.layer][layer_rows(shape, spec)].reshape(shape.size(spec))
            continue
        columns, rows = shape.columns(spec), weights.table[_table_rows(shape, spec.table)]
        if isinstance(columns, slice):
            tensors[name] = DeviceColumns(gpu, rows, columns)
        else:
            blocks = DeviceColumns(gpu, rows, slice(columns, columns + 1)).blocks()
            tensors[name] = np.concatenate([block[:, 0] for block in blocks])
    return tensors


def load_tensors(gpu: Gpu, weights: Weights, shape: Shape, tensors: Mapping[str, np.ndarray], prefix: str = "") -> None:
    """Fill weights, or arrays like them, from the tensors of a file."""
    for table in shape.tables:
        own = [(shape.columns(spec), tensors[prefix + spec.name]) for spec in shape.specs if spec.table == table]
        rows = weights.table[_table_rows(shape, table)]
        for start in range(0, shape.words, ROWS_AT_ONCE):
            end = min(start + ROWS_AT_ONCE, shape.words)
            block = np.zeros((end - start, table_width(shape)), np.float32)
            for columns, values in own:
                block[:, columns] = values[start:end]
            gpu.write(rows[start:end], block)
    for layer, view in enumerate(weights.views):
        stacked = np.empty(view.shape, np.float32)
        for spec in shape.specs:
            if spec.layer == layer:
                stacked[layer_rows(shape, spec)] = tensors[prefix + spec.name]
        gpu.write(view, stacked)


def _table_rows(shape: Shape, table: str) -> slice:
    """Return the rows of a table in the array that holds all tables."""
    first = shape.tables.index(table) * shape.words
    return slice(first, first + shape.words)
