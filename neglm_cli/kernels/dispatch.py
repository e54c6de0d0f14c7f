"""Kernels as Python calls them."""

import functools
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from neglm_cli.kernels import cache

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

_lock = threading.RLock()
_all: dict[str, "Kernel"] = {}
_local = threading.local()  # collected: kernels and signatures of the block of `compiled_together` in this thread


class Kernel:
    """A function that runs as object code, with one entry point for each signature it was called with.

    An entry point checks the types of its arguments itself and returns NotImplemented if they are not those it was
    compiled for.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self.name = f"{function.__module__}:{function.__qualname__}"
        self._entries: dict[str, Callable[..., Any]] = {}  # by signature
        self._calls: tuple[Callable[..., Any], ...] = ()  # the same
        _all[self.name] = self

    def __call__(self, *arguments: Any) -> Any:
        collected = getattr(_local, "collected", None)
        if collected is not None:
            collected[self, _signature(arguments)] = None
            return 0.0
        for entry in self._calls:
            result = entry(*arguments)
            if result is not NotImplemented:
                return result
        result = self._entry_for(_signature(arguments))(*arguments)
        if result is NotImplemented:
            raise TypeError(f"{self.name} takes plain arrays, numbers and tuples, not their subclasses")
        return result

    def _entry_for(self, signature: str) -> Callable[..., Any]:
        """Return the entry point for a signature: loaded, or compiled now if no earlier run has."""
        with _lock:
            if signature in self._entries:  # another thread was faster
                return self._entries[signature]
            compiled = cache.read(self.key, signature) or _compile([(self, signature)])[0]
            return self.load(signature, compiled)

    @functools.cached_property
    def key(self) -> str:
        """The name of the kernel in the cache, with the state of its file if `cache` does not watch it: a test's."""
        file = getattr(getattr(self.py_func, "__code__", None), "co_filename", "")
        if not os.path.isfile(file) or file.startswith(f"{cache.PACKAGE}{os.sep}"):
            return self.name
        return f"{self.name}@{cache.state_of([file])}"

    def load(self, signature: str, compiled: bytes) -> Callable[..., Any]:
        """Load the object code for a signature."""
        from neglm_cli.kernels.loading import load
        from neglm_cli.kernels.signatures import python_types

        with _lock:
            if signature not in self._entries:
                self._entries[signature] = load(compiled, list(python_types(json.loads(signature))))
                self._calls = tuple(self._entries.values())
            return self._entries[signature]


class InnerFunction:
    """A function that only kernels call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.__code__ = getattr(function, "__code__", None)

    def __call__(self, *arguments: Any) -> Any:
        name = self.__name__  # type: ignore[attr-defined]
        raise TypeError(f"{name} is called from kernels only; kernel({name}) calls it from Python")


@contextmanager
def compiled_together() -> Iterator[None]:
    """Collect the kernels that this thread calls in a block, without running them: calls return 0. Then compile, on all
    cores, those that no earlier run has compiled."""
    collected: dict[tuple[Kernel, str], None] = {}
    _local.collected = collected
    try:
        with np.errstate(all="ignore"):  # of what no kernel has computed
            yield
    finally:
        _local.collected = None
    missing = [
        (kernel, signature)
        for kernel, signature in collected
        if signature not in kernel._entries and not cache.has(kernel.key, signature)
    ]
    if missing:
        for (kernel, signature), compiled in zip(missing, _compile(missing), strict=True):
            kernel.load(signature, compiled)


def load_compiled() -> None:
    """Load all object code of kernels whose modules are imported, and those of their arguments."""
    for name, signature, compiled in cache.compiled():
        if name in _all:
            with suppress(KeyError):  # a module that is not imported
                _all[name].load(signature, compiled)


def _signature(arguments: tuple[Any, ...]) -> str:
    from neglm_cli.kernels.signatures import signature

    return json.dumps(signature(arguments), separators=(",", ":"))


def _compile(requests: list[tuple[Kernel, str]]) -> list[bytes]:
    """Compile kernels for signatures, and store their object code."""
    from neglm_cli.kernels.compilers import compile_kernels

    compiled = compile_kernels([(kernel.name, signature) for kernel, signature in requests])
    for (kernel, signature), code in zip(requests, compiled, strict=True):
        cache.write(kernel.key, signature, code)
    return compiled


def _renew_lock() -> None:
    """Replace the lock in a forked process: a thread that held it is not there."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)
