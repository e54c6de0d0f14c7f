"""A barrier for threads inside kernels."""

from llvmlite import ir

from neglm_cli.kernels import cgutils, inlined, intrinsic, types

SPINS = 50_000  # reads of the counter before yielding the CPU: about 0.1 ms


@intrinsic
def _arrive(typingctx, counter):
    """Increment counter[0] atomically and return its old value. Threads that read it then see all earlier writes."""
    signature = types.int64(counter)

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.atomic_rmw("add", data, ir.Constant(ir.IntType(64), 1), "seq_cst")

    return signature, codegen


@intrinsic
def _read(typingctx, counter):
    """Read counter[0], written by other threads."""
    signature = types.int64(counter)

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.load_atomic(data, "acquire", 8)

    return signature, codegen


@intrinsic
def _yield_cpu(typingctx):
    """Let another thread run."""
    signature = types.void()

    def codegen(context, builder, signature, args):
        kind = ir.FunctionType(ir.IntType(32), [])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return signature, codegen


@inlined
def barrier_wait(worker):
    """Wait until all threads of a team have arrived.

    worker.threads: their number. worker.arrivals: int64 counter, a multiple of worker.threads while none waits.
    """
    target = (_arrive(worker.arrivals) // worker.threads + 1) * worker.threads
    spins = 0
    while _read(worker.arrivals) < target:
        spins += 1
        if spins > SPINS:
            _yield_cpu()
