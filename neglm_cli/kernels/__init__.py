"""Kernels: functions that Numba compiles to object code, once; every later start loads that code without Numba.

    @kernel    called from Python; compiled once, then loaded from disk
    @inlined   called from kernels only; a call would cost more than the work
    @outlined  called from kernels only, and too rarely to be inlined into a hot loop
    @unchecked like @outlined, without checks for division by zero, which keep LLVM from vectorizing a loop
    @summed    like @outlined, for sums whose terms may be reordered, so that LLVM vectorizes them

A kernel takes arrays, scalars and (named) tuples of them, allocates nothing, raises nothing, and returns nothing, a
scalar or a tuple of scalars. `dispatch.py` calls it. `compilers.py` starts the processes that compile: only there is
Numba imported for the CPU, which takes half a second, `COMPILING` is true, and the decorators are Numba's. To call a
function other than a kernel from Python, as tests do: kernel(function).

`register_jitable`, `overload` and `intrinsic` are those of numba.extending, and `cgutils` and `types` stand for
Numba's modules, which are imported on first use.
"""

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from neglm_cli.kernels.dispatch import Decorator, InnerFunction, Kernel, compiled_together

COMPILING = os.environ.get("NEGLM_COMPILING") == "1"

_deferred: list[Callable[[Any], Any]] = []  # registrations with numba.extending, until Numba is imported


class _Module:
    """A module that is imported on first use."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._name), name)


__all__ = [
    "COMPILING", "cgutils", "compiled_together", "inlined", "intrinsic", "kernel", "outlined", "overload",
    "register_jitable", "register_with_numba", "summed", "types", "unchecked",
]  # fmt: skip

types: Any = _Module("numba.core.types")
cgutils: Any = _Module("numba.core.cgutils")


def _register(registration: Callable[[Any], Any]) -> None:
    """Call a function with numba.extending: now, or when `register_with_numba` is called."""
    _deferred.append(registration)
    if "numba" in sys.modules:
        register_with_numba()


def register_with_numba() -> None:
    """Register functions that are shared with kernels of numba-cuda, which compiles in this process."""
    extending = importlib.import_module("numba.extending")
    while _deferred:
        _deferred.pop(0)(extending)


def _register_jitable_later(function: Callable[..., Any]) -> Callable[..., Any]:
    _register(lambda extending: extending.register_jitable(function))
    return function


def _overload_later(function: Callable[..., Any]) -> Decorator:
    def decorator(implementation: Callable[..., Any]) -> Callable[..., Any]:
        _register(lambda extending: extending.overload(function)(implementation))
        return implementation

    return decorator


kernel: Decorator
inlined: Decorator
outlined: Decorator
unchecked: Decorator
summed: Decorator
register_jitable: Decorator
overload: Callable[[Callable[..., Any]], Decorator]
intrinsic: Decorator

if COMPILING:
    from numba.extending import intrinsic, overload, register_jitable

    from neglm_cli.kernels.numba_options import inlined, kernel, outlined, summed, unchecked
else:
    kernel = Kernel
    inlined = outlined = unchecked = summed = intrinsic = InnerFunction
    register_jitable, overload = _register_jitable_later, _overload_later
