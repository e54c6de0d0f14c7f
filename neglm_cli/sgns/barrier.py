"""A place where threads inside kernels wait for each other."""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from neglm_cli.kernels import inlined

PATIENCE = 2_000  # looks at the counter before the processor is given away


@intrinsic
def _arrive(typingctx, counter):
    """Add one to counter[0], in one piece; whatever was written before is seen by those who then read it."""
    signature = types.void(counter)

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        builder.atomic_rmw("add", data, ir.Constant(ir.IntType(64), 1), "seq_cst")
        return context.get_dummy_value()

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
def wait_for_all(counter, phase):
    """Wait until the counter has reached `phase`: threads times the number of meetings so far."""
    _arrive(counter)
    looks = 0
    while _read(counter) < phase:
        looks += 1
        if looks > PATIENCE:
            _give_way()
