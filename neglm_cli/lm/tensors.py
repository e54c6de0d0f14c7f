"""The tensors of files, as devices make and take them."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from neglm_cli.lm.device import Tensors
from neglm_cli.lm.parameters import Shape, blocks_of_rows
from neglm_cli.settings.parameters import ALL_OPTIMIZERS, LAST_UPDATE_STEP
from neglm_cli.settings.train_lm import Settings


class TableColumns:
    """Columns of a table, written to a file some rows at a time: the table is never copied as a whole."""

    def __init__(self, table: Any, columns: slice, download: Callable[[Any], np.ndarray] = np.asarray) -> None:
        """table: (V, ·), an array of a device; download: copies its rows to the host."""
        self.shape = (len(table), columns.stop - columns.start)
        self.dtype = np.dtype(table.dtype)
        self._table, self._columns, self._download = table, columns, download

    def blocks(self) -> Iterator[np.ndarray]:
        for rows in blocks_of_rows(len(self._table)):
            yield np.ascontiguousarray(self._download(self._table[rows])[:, self._columns])


def materialize(tensors: Tensors) -> dict[str, np.ndarray]:
    """Return tensors as arrays in memory, for small models."""
    return {name: t if isinstance(t, np.ndarray) else np.concatenate(list(t.blocks())) for name, t in tensors.items()}


def optimizer_arrays(settings: Settings, state: Any) -> dict[str, Any]:
    """Return the arrays that the optimizer keeps for each parameter, by the prefix of their tensors in files.

    state: a backend's optimizer state, with a `Weights` in each of the fields that `StateSpec.array` names.
    """
    return {f"{each.name}.": getattr(state, each.array) for each in ALL_OPTIMIZERS[settings.optimizer].state}


def row_steps(shape: Shape, settings: Settings, last_update_step: np.ndarray) -> Tensors:
    """Return the tensors of `last_update_step`, int32, one table's rows after the other's; none without it."""
    if not ALL_OPTIMIZERS[settings.optimizer].row_steps:
        return {}
    steps = last_update_step.reshape(len(shape.tables), -1)
    return {f"{LAST_UPDATE_STEP}.{table}": steps[number] for number, table in enumerate(shape.tables)}


def stacked_row_steps(shape: Shape, settings: Settings, tensors: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Return `last_update_step`, int32 (tables, V), from the tensors of a file; None without it."""
    if not ALL_OPTIMIZERS[settings.optimizer].row_steps:
        return None
    return np.stack([tensors[f"{LAST_UPDATE_STEP}.{table}"] for table in shape.tables])
