"""LLVM intrinsics that Numba lacks, for the tokenizer.

The tokenizer classifies 64 bytes at a time, and hashes and compares words 8 bytes at a time. LLVM lowers the vectors to
the instruction set of the machine (AVX2, NEON, plain SSE2).

Every load reads a whole vector, so byte buffers passed to kernels must end with PADDING spare bytes.
"""

from llvmlite import ir

from neglm_cli.kernels import inlined, intrinsic, types

PADDING = 64  # bytes that may be read past the end of a buffer


def _pointer(context, builder, array_type, array_and_index, pointee):
    """Return the address of array[index], as a pointer to `pointee`."""
    array, index = array_and_index
    data = context.make_array(array_type)(context, builder, array).data
    address = builder.gep(data, [index])
    return builder.bitcast(address, pointee.as_pointer())


@inlined
def copy(source, start, target, at, count):
    """Copy source[start:start+count] to target[at:]. (Numba would allocate memory, in case they overlap.)"""
    for i in range(count):
        target[at + i] = source[start + i]


@intrinsic
def load64(typingctx, buffer, index):
    """Load 8 bytes at buffer[index:], little-endian, at any alignment."""
    signature = types.uint64(buffer, types.int64)

    def codegen(context, builder, signature, args):
        pointer = _pointer(context, builder, signature.args[0], args, ir.IntType(64))
        return builder.load(pointer, align=1)

    return signature, codegen


@intrinsic
def whitespace64(typingctx, buffer, index):
    """Return two bit masks of the 64 bytes at buffer[index:]: ASCII whitespace, and newlines."""
    signature = types.UniTuple(types.uint64, 2)(buffer, types.int64)
    lanes = ir.VectorType(ir.IntType(8), 64)

    def constant(byte):
        return ir.Constant(lanes, [byte] * 64)

    def codegen(context, builder, signature, args):
        pointer = _pointer(context, builder, signature.args[0], args, lanes)
        block = builder.load(pointer, align=1)
        # \t \n \v \f \r are 9 to 13: one unsigned comparison after subtracting 9.
        control = builder.icmp_unsigned("<", builder.sub(block, constant(9)), constant(5))
        blank = builder.icmp_unsigned("==", block, constant(32))
        newline = builder.icmp_unsigned("==", block, constant(10))
        masks = [builder.bitcast(m, ir.IntType(64)) for m in (builder.or_(control, blank), newline)]
        return context.make_tuple(builder, signature.return_type, masks)

    return signature, codegen


@intrinsic
def lowest_bit(typingctx, mask):
    """Return the index of the lowest set bit; 64 if no bit is set."""
    signature = types.int64(types.uint64)

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return signature, codegen


@intrinsic
def bit_count(typingctx, mask):
    """Return the number of set bits."""
    signature = types.int64(types.uint64)

    def codegen(context, builder, signature, args):
        return builder.ctpop(args[0])

    return signature, codegen


@intrinsic
def folded_product(typingctx, a, b):
    """Multiply to 128 bits and XOR the two halves: each bit depends on all bits of both factors."""
    signature = types.uint64(types.uint64, types.uint64)

    def codegen(context, builder, signature, args):
        wide = ir.IntType(128)
        product = builder.mul(*(builder.zext(value, wide) for value in args))
        upper = builder.lshr(product, ir.Constant(wide, 64))
        return builder.trunc(builder.xor(product, upper), ir.IntType(64))

    return signature, codegen


@intrinsic
def prefetch(typingctx, array, index):
    """Prefetch array[index] into the cache, so that the table lookups of several words overlap."""
    signature = types.void(array, types.int64)

    def codegen(context, builder, signature, args):
        i32 = ir.IntType(32)
        pointer = _pointer(context, builder, signature.args[0], args, ir.IntType(8))
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, i32, i32, i32])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
        read, keep, data_cache = (ir.Constant(i32, value) for value in (0, 3, 1))
        builder.call(function, [pointer, read, keep, data_cache])
        return context.get_dummy_value()

    return signature, codegen
