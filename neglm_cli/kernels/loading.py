"""Object code, loaded into this process by LLVM and called through Python's C API."""

import ctypes
from collections.abc import Callable
from typing import Any

from llvmlite import binding

METH_FASTCALL = 0x80

_kept: list[Any] = []  # code and definitions of functions, which live as long as the process


class _MethodDefinition(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


def load(compiled: bytes, types: list[type]) -> Callable[..., Any]:
    """Return the entry point of object code as a Python function.

    compiled: of `compile.compiled`; types: of its arguments, see `signatures.python_types`.
    """
    name, _, code = compiled.partition(b"\0")
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _target_machine())
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    definition = _MethodDefinition(b"kernel", engine.get_function_address(name.decode()), METH_FASTCALL, None)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.argtypes, make.restype = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p), ctypes.py_object
    _kept.extend((engine, definition))
    return make(ctypes.addressof(definition), (NotImplemented, True, *types), None)


def _target_machine() -> Any:
    """Return a description of this machine's CPU, which the engine that takes it will own."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_default_triple().create_target_machine(jit=True)
