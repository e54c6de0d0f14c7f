"""The process that compiles kernels: reads requests from standard input, and writes object code to a pipe.

Started by `compilers.py` with NEGLM_COMPILING=1, which makes the decorators Numba's. A request is a line of JSON, the
name of a kernel and its signature. A reply is one byte, E for an error, its length in 8 bytes, and its data: the name
of the entry point, a zero byte and the object code, or a message.
"""

import ctypes
import importlib
import json
import os
import sys
from typing import Any, BinaryIO

import numba
import numpy as np
from llvmlite import binding
from numba.core import types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.np.numpy_support import from_dtype

from neglm_cli.kernels.entry import RESHAPE, add_entry
from neglm_cli.kernels.numba_options import ENTRY
from neglm_cli.kernels.signatures import Type, find, items

PLAIN = {"int": types.int64, "float": types.float64, "bool": types.boolean, "none": types.none}


@global_compiler_lock
def compiled(name: str, signature: list[Type]) -> bytes:
    """Compile a kernel for a signature; return the name of its entry point, a zero byte, and its object code."""
    module, _, qualified = name.partition(":")
    importlib.import_module(module)
    function = find(module, qualified)
    options = getattr(function, "targetoptions", {}) | ENTRY  # tests also call functions of kernels
    dispatcher = numba.jit(**{"nopython": True} | options)(getattr(function, "py_func", function))
    arguments = tuple(_numba_type(kind) for kind in signature)
    context = cpu_target.target_context

    def add(library: Any, descriptor: Any, env: Any, call_helper: Any, release_gil: bool = False) -> None:
        if descriptor.modname == module and descriptor.qualname == qualified and descriptor.argtypes == arguments:
            add_entry(context, library, descriptor, signature)
            library.add_llvm_module(binding.parse_assembly(RESHAPE))

    context.create_cpython_wrapper = add  # in place of Numba's, which needs its runtime
    # Numba identifies a compiled function by the builtin that calls it. Nothing is called here: any will do, once.
    context.get_executable = lambda *_: [].append
    dispatcher.compile(arguments)
    result: Any = dispatcher.overloads[arguments]
    library = result.library
    library._ensure_finalized()  # links and optimizes
    _check_symbols(name, library)
    code = library.codegen._tm.emit_object(library._final_module)
    return result.fndesc.llvm_cpython_wrapper_name.encode() + b"\0" + code


def _numba_type(kind: Type) -> Any:
    if kind[0] in PLAIN:
        return PLAIN[kind[0]]
    if kind[0] == "scalar":
        return from_dtype(np.dtype(kind[1]))
    if kind[0] == "array":
        _, dtype, dimensions, layout, writable = kind
        return types.Array(from_dtype(np.dtype(dtype)), dimensions, layout, readonly=not writable)
    of_items = [_numba_type(each) for each in items(kind)]
    if kind[0] == "tuple":
        return types.BaseTuple.from_types(of_items)
    importlib.import_module(kind[1])
    return types.BaseTuple.from_types(of_items, find(kind[1], kind[2]))


def _check_symbols(name: str, library: Any) -> None:
    """Raise if object code calls what only Numba provides: LLVM ends a process that cannot resolve a symbol."""
    here = ctypes.CDLL(None)
    for function in library._final_module.functions:
        if function.is_declaration and not function.name.startswith("llvm.") and not hasattr(here, function.name):
            raise TypeError(f"the kernel {name} needs Numba's runtime: {function.name}")


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    for line in requests:
        try:
            name, signature = json.loads(line)
            kind, data = b"O", compiled(name, signature)
        except Exception as error:
            kind, data = b"E", f"{type(error).__name__}: {error}".encode()
        try:
            replies.write(kind + len(data).to_bytes(8, "little") + data)
            replies.flush()
        except BrokenPipeError:  # nobody waits for it
            os._exit(0)


if __name__ == "__main__":
    serve(sys.stdin.buffer, os.fdopen(int(sys.argv[1]), "wb"))
