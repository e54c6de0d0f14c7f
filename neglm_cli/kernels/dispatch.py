"""Kernels as Python calls them."""

import functools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from neglm_cli.kernels import cache

_lock = threading.RLock()
_all: dict[str, "Kernel"] = {}
_collected: dict[tuple[str, str], "Kernel"] | None = None  # kernels and signatures, in a block of `compiled_together`


class Kernel:
    """A function that runs as object code, with one entry point for each signature it was called with.

    An entry point checks the types of its arguments itself and returns NotImplemented if they are not those it was
    compiled for.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self.name = f"{function.__module__}:{function.__qualname__}"
        self._entries: tuple[Callable[..., Any], ...] = ()
        self._loaded: set[str] = set()
        _all[self.name] = self

    def __call__(self, *arguments: Any) -> Any:
        if _collected is not None:
            _collected[self.name, _signature(arguments)] = self
            return 0.0
        for entry in self._entries:
            result = entry(*arguments)
            if result is not NotImplemented:
                return result
        return self._entry_for(arguments)(*arguments)

    def _entry_for(self, arguments: tuple[Any, ...]) -> Callable[..., Any]:
        """Load the entry point for arguments like these, compiled now if no earlier run has."""
        signature = _signature(arguments)
        with _lock:
            compiled = cache.read(self.name, signature) or _compile([(self.name, signature)])[0]
            return self.load(signature, compiled)

    def load(self, signature: str, compiled: bytes) -> Callable[..., Any]:
        """Load the object code for a signature."""
        from neglm_cli.kernels.loading import load
        from neglm_cli.kernels.signatures import python_types

        with _lock:
            entry = load(compiled, list(python_types(json.loads(signature))))
            if signature not in self._loaded:
                self._loaded.add(signature)
                self._entries += (entry,)
            return entry


class Part:
    """A function that only kernels call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        name = self.__name__  # type: ignore[attr-defined]
        raise TypeError(f"{name} is called from kernels only; kernel({name}) calls it from Python")


@contextmanager
def compiled_together() -> Iterator[None]:
    """Collect the kernels that a block calls, without running them: calls return 0. Then compile, on all cores, those
    that no earlier run has compiled."""
    global _collected
    collected: dict[tuple[str, str], Kernel] = {}
    _collected = collected
    try:
        with np.errstate(all="ignore"):  # of what no kernel has computed
            yield
    finally:
        _collected = None
    missing = [(name, text) for (name, text), kernel in collected.items() if text not in kernel._loaded]
    missing = [request for request in missing if not cache.has(*request)]
    if missing:
        for (name, text), compiled in zip(missing, _compile(missing), strict=True):
            _all[name].load(text, compiled)


def load_compiled() -> None:
    """Load all object code of kernels whose modules are imported, and those of their arguments."""
    for name, signature, compiled in cache.compiled():
        if name in _all and signature not in _all[name]._loaded:
            with suppress(KeyError):  # a module that is not imported
                _all[name].load(signature, compiled)


def _signature(arguments: tuple[Any, ...]) -> str:
    from neglm_cli.kernels.signatures import signature

    return json.dumps(signature(arguments), separators=(",", ":"))


def _compile(requests: list[tuple[str, str]]) -> list[bytes]:
    """Compile kernels for signatures, and store their object code."""
    from neglm_cli.kernels.compilers import compile_kernels

    compiled = compile_kernels(requests)
    for request, code in zip(requests, compiled, strict=True):
        cache.write(*request, code)
    return compiled
