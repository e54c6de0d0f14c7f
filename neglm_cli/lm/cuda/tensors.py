"""Parameters between the tensors of files and the arrays of GPU kernels."""

from collections.abc import Mapping

import numpy as np

from neglm_cli.lm.cuda.arrays import Weights, layer_rows, table_width
from neglm_cli.lm.cuda.gpu import Gpu
from neglm_cli.lm.device import Tensors
from neglm_cli.lm.parameters import Shape, blocks_of_rows
from neglm_cli.lm.tensors import TableColumns


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
            tensors[name] = TableColumns(rows, columns, gpu.download)
        else:
            blocks = TableColumns(rows, slice(columns, columns + 1), gpu.download).blocks()
            tensors[name] = np.concatenate([block[:, 0] for block in blocks])
    return tensors


def load_tensors(gpu: Gpu, weights: Weights, shape: Shape, tensors: Mapping[str, np.ndarray], prefix: str = "") -> None:
    """Fill weights, or arrays like them, from the tensors of a file."""
    for table in shape.tables:
        parameters = [(shape.columns(spec), tensors[prefix + spec.name]) for spec in shape.specs if spec.table == table]
        rows = weights.table[_table_rows(shape, table)]
        for part in blocks_of_rows(shape.words):
            block = np.zeros((part.stop - part.start, table_width(shape)), np.float32)
            for columns, values in parameters:
                block[:, columns] = values[part]
            gpu.write(rows[part], block)
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
