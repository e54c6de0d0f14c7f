"""Parameters between the tensors of files and the arrays of CPU kernels."""

from collections.abc import Mapping

import numpy as np

from neglm_cli.lm.cpu.arrays import Weights, empty_weights, zeros
from neglm_cli.lm.cpu.cell import UNITS
from neglm_cli.lm.cpu.gemm import PANEL
from neglm_cli.lm.device import Tensors
from neglm_cli.lm.parameters import Parameters, Shape, padded
from neglm_cli.lm.tensors import TableColumns
from neglm_cli.settings.parameters import ParameterSpec


def pack(matrix: np.ndarray, hidden: int) -> np.ndarray:
    """Convert (D, 4H), one gate after the other, to (P, D, PANEL)."""
    rows = len(matrix)
    panels = padded(hidden) // UNITS
    gates = np.zeros((rows, 4, panels * UNITS), np.float32)
    gates[:, :, :hidden] = matrix.reshape(rows, 4, hidden)
    packed = zeros(panels, rows, PANEL)
    packed[:] = gates.reshape(rows, 4, panels, UNITS).transpose(2, 0, 1, 3).reshape(panels, rows, PANEL)
    return packed


def unpack(packed: np.ndarray, hidden: int) -> np.ndarray:
    """Convert (P, D, PANEL) to (D, 4H)."""
    panels, rows, _ = packed.shape
    gates = packed.reshape(panels, rows, 4, UNITS).transpose(1, 2, 0, 3).reshape(rows, 4, panels * UNITS)
    return np.ascontiguousarray(gates[:, :, :hidden]).reshape(rows, 4 * hidden)


def pack_parameters(parameters: Parameters) -> Weights:
    """Pack the weights of the layers into panels. The tables stay as they are, without a copy."""
    weights, dense = empty_weights(parameters.shape, parameters.tables), parameters.dense
    for spec in parameters.shape.specs:
        if not spec.table:
            _panels(weights, spec, parameters.shape)[:] = pack(_matrix(dense[spec.name]), parameters.shape.hidden)
    return weights


def to_tensors(weights: Weights, shape: Shape, prefix: str = "") -> Tensors:
    """Return weights, or arrays like them, as tensors of a file."""
    tensors: Tensors = {}
    for spec in shape.specs:
        if not spec.table:
            unpacked = unpack(_panels(weights, spec, shape), shape.hidden)
            tensors[prefix + spec.name] = unpacked.reshape(shape.size(spec))
            continue
        table, columns = getattr(weights, spec.table), shape.columns(spec)
        tensors[prefix + spec.name] = (
            TableColumns(table, columns) if isinstance(columns, slice) else table[:, columns].copy()
        )
    return tensors


def load_tensors(weights: Weights, shape: Shape, tensors: Mapping[str, np.ndarray], prefix: str = "") -> None:
    """Fill weights, or arrays like them, from the tensors of a file."""
    for spec in shape.specs:
        values = tensors[prefix + spec.name]
        if spec.table:
            getattr(weights, spec.table)[:, shape.columns(spec)] = values
        else:
            _panels(weights, spec, shape)[:] = pack(_matrix(values), shape.hidden)


def _panels(weights: Weights, spec: ParameterSpec, shape: Shape) -> np.ndarray:
    """Return a view of a dense parameter, (P, rows, PANEL); one row for biases."""
    layer = getattr(weights, spec.array)[spec.layer]
    rows = shape.size(spec)[0] if len(spec.shape) > 1 else 1
    return layer.reshape(len(layer), -1, PANEL)[:, :rows]


def _matrix(tensor: np.ndarray) -> np.ndarray:
    """Return a vector as a matrix of one row."""
    return tensor.reshape(-1, tensor.shape[-1])
