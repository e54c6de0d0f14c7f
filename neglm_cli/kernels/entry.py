"""Entry points of kernels, in LLVM's intermediate representation: from Python objects to native arguments and back.

An entry point is a PyCFunction of METH_FASTCALL. It compares the type of every argument with those in `self`, a tuple
(NotImplemented, True, type of the first argument, types of its items, ...), then the dtype, dimensions and layout of
arrays, and returns NotImplemented unless all agree. It runs without the GIL.

Offsets are those of objects in CPython from 3.11 on, and of NumPy's arrays since 1.7, on 64-bit machines.
"""

import sys
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types as numba_types
from numba.np.arrayobj import populate_array

from neglm_cli.kernels.signatures import Type, items

types: Any = numba_types  # whose types lack some attributes
i1, i8, i32, i64, f64 = ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.DoubleType()
pointer = i8.as_pointer()

HEADER = object.__basicsize__  # whose last member is the type
TYPE, VALUE = HEADER - 8, HEADER  # of objects; of scalars
LENGTH, ITEMS = HEADER, tuple.__basicsize__  # of tuples
DATA, DIMENSIONS, SHAPE, STRIDES, DTYPE, FLAGS = (HEADER + offset for offset in (0, 8, 16, 24, 40, 48))  # of arrays
BYTE_ORDER, NUMBER = HEADER + 10, HEADER + 12  # of dtypes
OTHER_ORDER = ord(">" if sys.byteorder == "little" else "<")
C_CONTIGUOUS, ALIGNED, WRITABLE = 0x1, 0x100, 0x400
NOT_IMPLEMENTED, TRUE, FIRST_TYPE = range(3)  # items of self

# Numba asks its runtime how to reshape. Kernels reshape C-contiguous arrays only, where it is always possible.
RESHAPE = """
define weak_odr i32 @numba_attempt_nocopy_reshape(i64 %nd, i64* %dims, i64* %strides, i64 %newnd, i64* %newdims,
                                                  i64* %newstrides, i64 %itemsize, i32 %is_f_order) {
entry:
  br label %check
check:
  %left = phi i64 [ %newnd, %entry ], [ %index, %fill ]
  %stride = phi i64 [ %itemsize, %entry ], [ %next, %fill ]
  %more = icmp sgt i64 %left, 0
  br i1 %more, label %fill, label %done
fill:
  %index = sub i64 %left, 1
  %to = getelementptr i64, i64* %newstrides, i64 %index
  store i64 %stride, i64* %to
  %of = getelementptr i64, i64* %newdims, i64 %index
  %size = load i64, i64* %of
  %next = mul i64 %stride, %size
  br label %check
done:
  ret i32 1
}
"""


def add_entry(context: Any, library: Any, descriptor: Any, signature: list[Type]) -> None:
    """Add the entry point of a compiled function to its library."""
    module = context.create_module("entry")
    kind = context.call_conv.get_function_type(descriptor.restype, descriptor.argtypes)
    callee = ir.Function(module, kind, descriptor.llvm_func_name)
    function = ir.Function(
        module, ir.FunctionType(pointer, [pointer, pointer, i64]), descriptor.llvm_cpython_wrapper_name
    )
    _Entry(context, function).build(callee, descriptor, signature)
    library.add_ir_module(module)


class _Entry:
    def __init__(self, context: Any, function: Any) -> None:
        self.context = context
        self.types, self.arguments, self.count = function.args
        self.builder = ir.IRBuilder(function.append_basic_block("entry"))
        self.mismatch = function.append_basic_block("mismatch")
        self.failed = function.append_basic_block("failed")
        self.next_type = FIRST_TYPE

    def build(self, callee: Any, descriptor: Any, signature: list[Type]) -> None:
        build = self.builder
        self.require(build.icmp_signed("==", self.count, ir.Constant(i64, len(signature))))
        arguments = [
            self.unbox(self.load(self.arguments, 8 * i, pointer), kind, native)
            for i, (kind, native) in enumerate(zip(signature, descriptor.argtypes, strict=True))
        ]
        thread = self.call("PyEval_SaveThread", pointer)
        status, result = self.context.call_conv.call_function(
            build, callee, descriptor.restype, descriptor.argtypes, arguments, attrs=("noinline",)
        )
        self.call("PyEval_RestoreThread", ir.VoidType(), thread)
        with build.if_then(status.is_error, likely=False):
            error = self.load(self.symbol("PyExc_ArithmeticError"), 0, pointer)
            text = self.context.insert_const_string(build.module, f"a kernel failed: {descriptor.qualname}")
            self.call("PyErr_SetString", ir.VoidType(), error, text)
            build.branch(self.failed)
        build.ret(self.box(result, descriptor.restype))
        build.position_at_end(self.mismatch)
        build.ret(self.new_reference(self.item(self.types, NOT_IMPLEMENTED)))
        build.position_at_end(self.failed)
        build.ret(ir.Constant(pointer, None))

    # --- objects ----------------------------------------------------------------------------------------

    def load(self, base: Any, offset: int, kind: Any) -> Any:
        """Load a value at an offset in bytes."""
        address = self.builder.gep(base, [ir.Constant(i64, offset)])
        return self.builder.load(self.builder.bitcast(address, kind.as_pointer()))

    def item(self, tuple_: Any, index: int) -> Any:
        return self.load(tuple_, ITEMS + 8 * index, pointer)

    def symbol(self, name: str) -> Any:
        """Return the address of a variable of Python."""
        module = self.builder.module
        return module.globals.get(name) or ir.GlobalVariable(module, i8, name)

    def call(self, name: str, result: Any, *arguments: Any) -> Any:
        """Call a function of Python's C API."""
        module = self.builder.module
        kind = ir.FunctionType(result, [argument.type for argument in arguments])
        return self.builder.call(module.globals.get(name) or ir.Function(module, kind, name), arguments)

    def new_reference(self, object_: Any) -> Any:
        self.call("Py_IncRef", ir.VoidType(), object_)
        return object_

    def require(self, condition: Any) -> None:
        """Continue if a condition holds; otherwise the arguments are of other types."""
        further = self.builder.append_basic_block()
        self.builder.cbranch(condition, further, self.mismatch)
        self.builder.position_at_end(further)

    def require_equal(self, value: Any, expected: int) -> None:
        self.require(self.builder.icmp_signed("==", value, ir.Constant(value.type, expected)))

    # --- arguments --------------------------------------------------------------------------------------

    def unbox(self, object_: Any, kind: Type, native: Any) -> Any:
        """Return the native value of an object."""
        expected = self.item(self.types, self.next_type)
        self.next_type += 1
        self.require(self.builder.icmp_unsigned("==", self.load(object_, TYPE, pointer), expected))
        return getattr(self, f"unbox_{kind[0]}")(object_, kind, native)

    def unbox_int(self, object_: Any, kind: Type, native: Any) -> Any:
        build = self.builder
        value = self.call("PyLong_AsLongLong", i64, object_)
        with build.if_then(build.icmp_signed("==", value, ir.Constant(i64, -1)), likely=False):
            error = self.call("PyErr_Occurred", pointer)
            further = build.append_basic_block()
            build.cbranch(build.icmp_unsigned("==", error, ir.Constant(pointer, None)), further, self.failed)
            build.position_at_end(further)
        return value

    def unbox_float(self, object_: Any, kind: Type, native: Any) -> Any:
        return self.load(object_, VALUE, f64)

    def unbox_bool(self, object_: Any, kind: Type, native: Any) -> Any:
        return self.builder.icmp_unsigned("==", object_, self.item(self.types, TRUE))

    def unbox_none(self, object_: Any, kind: Type, native: Any) -> Any:
        return self.context.get_dummy_value()

    def unbox_scalar(self, object_: Any, kind: Type, native: Any) -> Any:
        stored = self.load(object_, VALUE, self.context.get_data_type(native))
        return self.context.data_model_manager[native].from_data(self.builder, stored)

    def unbox_array(self, object_: Any, kind: Type, native: Any) -> Any:
        build = self.builder
        _, dtype, dimensions, layout, writable = kind
        self.require_equal(self.load(object_, DIMENSIONS, i32), dimensions)
        self.require_dtype(self.load(object_, DTYPE, pointer), np.dtype(dtype))
        expected = ALIGNED | (C_CONTIGUOUS if layout == "C" else 0) | (WRITABLE if writable else 0)
        flags = build.and_(self.load(object_, FLAGS, i32), ir.Constant(i32, ALIGNED | C_CONTIGUOUS | WRITABLE))
        self.require_equal(flags, expected)
        shape, strides = (
            [self.load(self.load(object_, at, pointer), 8 * i, i64) for i in range(dimensions)]
            for at in (SHAPE, STRIDES)
        )
        array = self.context.make_array(native)(self.context, build)
        data = build.bitcast(self.load(object_, DATA, pointer), array.data.type)
        item_size = self.context.get_constant(types.intp, np.dtype(dtype).itemsize)
        populate_array(array, data=data, shape=shape, strides=strides, itemsize=item_size, meminfo=None)
        return array._getvalue()

    def require_dtype(self, object_: Any, dtype: np.dtype[Any]) -> None:
        self.require_equal(self.load(object_, NUMBER, i32), dtype.num)
        order = self.load(object_, BYTE_ORDER, i8)
        self.require(self.builder.icmp_signed("!=", order, ir.Constant(i8, OTHER_ORDER)))

    def unbox_tuple(self, object_: Any, kind: Type, native: Any) -> Any:
        self.require_equal(self.load(object_, LENGTH, i64), len(items(kind)))
        values = [self.unbox(self.item(object_, i), each, native.types[i]) for i, each in enumerate(items(kind))]
        return self.context.make_tuple(self.builder, native, values)

    unbox_named = unbox_tuple

    # --- the result -------------------------------------------------------------------------------------

    def box(self, value: Any, native: Any) -> Any:
        """Return a new reference to an object with a native value."""
        build = self.builder
        if native == types.none:
            return self.new_reference(self.symbol("_Py_NoneStruct"))
        if native == types.boolean:
            return self.call("PyBool_FromLong", pointer, build.zext(value, i64))
        if isinstance(native, types.Integer):
            if native.signed:
                return self.call("PyLong_FromLongLong", pointer, self.context.cast(build, value, native, types.int64))
            wide = self.context.cast(build, value, native, types.uint64)
            return self.call("PyLong_FromUnsignedLongLong", pointer, wide)
        if isinstance(native, types.Float):
            return self.call("PyFloat_FromDouble", pointer, self.context.cast(build, value, native, types.float64))
        if isinstance(native, types.BaseTuple):
            result = self.call("PyTuple_New", pointer, ir.Constant(i64, len(native.types)))
            for i, each in enumerate(native.types):
                boxed = self.box(build.extract_value(value, i), each)
                self.call("PyTuple_SetItem", i32, result, ir.Constant(i64, i), boxed)
            return result
        raise TypeError(f"a kernel cannot return {native}")
