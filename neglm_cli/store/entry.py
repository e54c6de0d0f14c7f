"""Entries of a safetensors header: the type, shape and offsets of each tensor."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from neglm_cli.store.rules import SchemaError, quoted

SAFETENSORS_DTYPE = {"uint8": "U8", "int32": "I32", "int64": "I64", "float32": "F32"}
NUMPY_DTYPE = {theirs: ours for ours, theirs in SAFETENSORS_DTYPE.items()}
MAX_DIMENSIONS = 3


class Entry(NamedTuple):
    """A tensor's entry in the header."""

    dtype: str  # in NumPy
    shape: tuple[int, ...]
    start: int  # offset in the data
    end: int

    def view(self, data: np.ndarray) -> np.ndarray:
        """Return a view of the tensor in the data, or a copy if it is not aligned."""
        return np.require(data[self.start : self.end].view(self.dtype).reshape(self.shape), requirements="A")

    def rows(self) -> list["Entry"]:
        """Return the entries of a tensor's rows."""
        size = (self.end - self.start) // self.shape[0]
        starts = range(self.start, self.end, size)
        return [Entry(self.dtype, self.shape[1:], start, start + size) for start in starts]


def parse_entry(name: str, described: Any) -> Entry:
    """Parse a tensor's entry, and check that its size matches its shape."""
    try:
        dtype, shape, (start, end) = NUMPY_DTYPE[described["dtype"]], described["shape"], described["data_offsets"]
        numbers = [*shape, start, end]
    except (KeyError, TypeError, ValueError) as error:
        raise SchemaError(f"tensor {quoted(name)} is missing or of the wrong type") from error
    if not all(type(number) is int and 0 <= number < 2**63 for number in numbers) or len(shape) > MAX_DIMENSIONS:
        raise SchemaError(f"tensor {quoted(name)} has an invalid shape or offset")
    if end - start != math.prod(shape) * np.dtype(dtype).itemsize:
        raise SchemaError(f"the size of tensor {quoted(name)} does not match its shape")
    return Entry(dtype, tuple(shape), start, end)


def size_of(entries: Mapping[str, Entry]) -> int:
    """Return the size of the data. Raise if there are gaps between tensors."""
    end = 0
    for entry in sorted(entries.values(), key=lambda entry: (entry.start, entry.end)):
        if entry.start != end:
            raise SchemaError("its tensors do not follow each other")
        end = entry.end
    return end
