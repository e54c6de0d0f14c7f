"""A place where threads inside kernels wait for each other."""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from neglm_cli.kernels import inlined

PATIENCE = 50_000  # looks at the counter, about 0.1 ms, before the processor is given away: to whom, one cannot choose


@intrinsic
def _arrive(typingctx, counter):
    """Add one to counter[0], in one piece, and say what it was; whatever was written before is seen by those who then
    read it."""
    signature = types.int64(counter)

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.atomic_rmw("add", data, ir.Constant(ir.IntType(64), 1), "seq_cst")

    return signature, codegen


@intrinsic
def _read(typingctx, counter):
    """counter[0] as others see it."""
    signature = types.int64(counter)

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.load_atomic(data, "acquire", 8)

    return signature, codegen


@intrinsic
def _give_way(typingctx):
    """Let another thread have the processor."""
    signature = types.void()

    def codegen(context, builder, signature, args):
        kind = ir.FunctionType(ir.IntType(32), [])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return signature, codegen


@inlined
def meet(counter, threads):
    """Wait until all threads are here. `counter` is an int64 array; its first number is a multiple of `threads` when
    none of them is at a meeting."""
    all_here = (_arrive(counter) // threads + 1) * threads
    looks = 0
    while _read(counter) < all_here:
        looks += 1
        if looks > PATIENCE:
            _give_way()
