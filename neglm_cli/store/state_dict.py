"""Plain safetensors files, such as PyTorch's state dicts: tensors by name, without neglm's metadata."""

import json
import math
import os
from collections.abc import Mapping
from typing import BinaryIO

import numpy as np

from neglm_cli.errors import NeglmError, shown
from neglm_cli.store import wording
from neglm_cli.store.entry import SAFETENSORS_DTYPE, parse_entry, size_of
from neglm_cli.store.rules import SchemaError, quoted
from neglm_cli.store.schema import MAX_HEADER_SIZE
from neglm_cli.store.validation import parse_json

ALIGNMENT = 8  # of the data


def write_state_dict(file: BinaryIO, tensors: Mapping[str, np.ndarray]) -> None:
    """Write tensors in the given order. The metadata says that they are PyTorch's."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    position = 0
    for name, tensor in tensors.items():
        end = position + math.prod(tensor.shape) * tensor.dtype.itemsize
        dtype = SAFETENSORS_DTYPE[tensor.dtype.name]
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [position, end]}
        position = end
    text = json.dumps(header, separators=(",", ":")).encode()
    padded = text.ljust(-(-len(text) // ALIGNMENT) * ALIGNMENT)
    file.write(len(padded).to_bytes(8, "little") + padded)
    for tensor in tensors.values():
        file.write(np.ascontiguousarray(tensor).data)


def read_state_dict(path: str) -> dict[str, np.ndarray]:
    """Read all tensors of a file. Raise unless they are of types that neglm has: F32, I64, I32, U8."""
    name = shown(path)
    if not os.path.exists(path):
        raise NeglmError(wording.missing(path))
    try:
        with open(path, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            text = file.read(size) if size <= MAX_HEADER_SIZE else b""
            data = np.fromfile(file, np.uint8)
    except OSError as error:
        raise NeglmError(f"cannot read {name}: {error.strerror or error}") from error
    if not text.startswith(b"{") or len(text) < size:
        raise NeglmError(f"{name} is not a safetensors file; write it with safetensors.torch.save_file")
    try:
        described = parse_json(text.decode())
        described.pop("__metadata__", None)
        for key, entry in described.items():
            if isinstance(entry, dict) and entry.get("dtype") not in SAFETENSORS_DTYPE.values():
                raise NeglmError(f"{name}: tensor {quoted(key)} has the type {entry.get('dtype')}; convert it to F32")
        entries = {key: parse_entry(key, entry) for key, entry in described.items()}
        expected = size_of(entries)
    except (SchemaError, ValueError, AttributeError) as error:
        reason = str(error) if isinstance(error, SchemaError) else "its header is unreadable"
        raise NeglmError(f"{name} is damaged: {reason}; get it again") from error
    if len(data) != expected:
        raise NeglmError(f"{name} is damaged: it has {len(data):,} bytes of data, not {expected:,}; get it again")
    return {key: entry.view(data) for key, entry in entries.items()}
