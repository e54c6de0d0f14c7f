"""A barrier for threads inside kernels."""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from neglm_cli.kernels import inlined

SPINS = 50_000  # reads of the counter, about 0.1 ms, before the CPU is yielded


@intrinsic
def _arrive(typingctx, counter):
    """Add one to counter[0] atomically and return what it was. Threads that read it then see all earlier writes."""
    signature = types.int64(counter)

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.atomic_rmw("add", data, ir.Constant(ir.IntType(64), 1), "seq_cst")

    return signature, codegen


@intrinsic
def _read(typingctx, counter):
    """Read counter[0] as other threads have left it."""
    signature = types.int64(counter)

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.load_atomic(data, "acquire", 8)

    return signature, codegen


@intrinsic
def _yield_cpu(typingctx):
    """Let another thread have the CPU."""
    signature = types.void()

    def codegen(context, builder, signature, args):
        kind = ir.FunctionType(ir.IntType(32), [])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return signature, codegen


@inlined
def barrier_wait(worker):
    """Wait until all threads of a team are here.

    worker.threads: how many there are. worker.arrivals: int64, the first value a multiple of that while none waits.
    """
    everyone = (_arrive(worker.arrivals) // worker.threads + 1) * worker.threads
    spins = 0
    while _read(worker.arrivals) < everyone:
        spins += 1
        if spins > SPINS:
            _yield_cpu()
