"""Types of the arguments that a kernel is compiled for.

A type is a list, which JSON can store: its first item names what it is.

    ["int"], ["float"], ["bool"], ["none"]    Python's; int is 64 bits wide
    ["scalar", "Q"]                           a NumPy scalar: character of its dtype
    ["array", "f", 2, "C", true]              dtype, dimensions, C (C-contiguous) or A (any strides), writable
    ["tuple", [type, ...]]
    ["named", "module", "Class", [type, ...]]    a NamedTuple
"""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

Type = list[Any]

PLAIN: dict[type, Type] = {int: ["int"], float: ["float"], bool: ["bool"], type(None): ["none"]}
NAMES: dict[str, type] = {name: kind for kind, (name,) in PLAIN.items()}


def signature(arguments: Sequence[Any]) -> list[Type]:
    """Return the types of arguments."""
    return [_type_of(value) for value in arguments]


def _type_of(value: Any) -> Type:
    kind = type(value)
    if kind in PLAIN:
        return PLAIN[kind]
    if kind is np.ndarray:
        layout = "C" if value.flags.c_contiguous else "A"
        if not (value.dtype.isnative and value.flags.aligned):
            raise TypeError(f"kernels take aligned arrays in the byte order of the machine, not {value.dtype.str}")
        _check_dtype(value.dtype)
        return ["array", value.dtype.char, value.ndim, layout, bool(value.flags.writeable)]
    if isinstance(value, np.generic):
        _check_dtype(value.dtype)
        return ["scalar", value.dtype.char]
    if kind is tuple:
        return ["tuple", signature(value)]
    if isinstance(value, tuple):
        return ["named", kind.__module__, kind.__qualname__, signature(value)]
    raise TypeError(f"kernels take arrays, scalars and tuples, not {kind.__name__}")


def _check_dtype(dtype: "np.dtype[Any]") -> None:
    if dtype.kind not in "biufc":
        raise TypeError(f"kernels take numbers, not {dtype.str}")


def items(kind: Type) -> list[Type]:
    """Return the types of a tuple's items; none for other types."""
    return kind[-1] if kind[0] in ("tuple", "named") else []


def python_types(kinds: list[Type]) -> Iterator[type]:
    """Return the Python type of each argument, each followed by those of its items."""
    for kind in kinds:
        yield _python_type(kind)
        yield from python_types(items(kind))


def _python_type(kind: Type) -> Any:
    if kind[0] == "array":
        return np.ndarray
    if kind[0] == "scalar":
        return np.dtype(kind[1]).type
    if kind[0] == "tuple":
        return tuple
    if kind[0] == "named":
        return find(kind[1], kind[2])
    return NAMES[kind[0]]


def find(module: str, name: str) -> Any:
    """Return a class or function by its module, which is imported, and its qualified name."""
    found = sys.modules[module]
    for part in name.split("."):
        found = getattr(found, part)
    return found
