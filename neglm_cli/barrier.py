"""A barrier for threads inside kernels."""

import time

import numpy as np
from llvmlite import ir

from neglm_cli.kernels import cgutils, inlined, intrinsic, types
from neglm_cli.kernels.compilers import usable_cores

SPINS = 50_000  # reads of the counter before yielding the CPU, if each thread may have its own: about 0.1 ms
LONG = 1_000_000  # nanoseconds: a yield that takes longer gave the CPU to another process
CONTENDED = 20_000_000  # nanoseconds for which waiting threads sleep after such a yield
FEW_SPINS = 5_000  # reads before they do


def allocate_barrier(threads: int) -> np.ndarray:
    """Return the memory of a barrier for threads that share it: int64 (8,), a cache line.

    [0]: the number of arrivals, a multiple of the number of threads while none waits. [1]: the time, in nanoseconds,
    until which the CPUs count as contended. [2]: reads of the counter before yielding the CPU; 0 if threads share one.
    """
    barrier = np.zeros(8, np.int64)
    barrier[2] = SPINS if threads <= usable_cores() else 0
    return barrier


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


def _call(builder, name, *args):
    """Call a C function that returns an int."""
    kind = ir.FunctionType(ir.IntType(32), [arg.type for arg in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)


@intrinsic
def _yield_cpu(typingctx):
    """Let another thread run."""
    signature = types.void()

    def codegen(context, builder, signature, args):
        _call(builder, "sched_yield")
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def _sleep(typingctx):
    """Sleep as shortly as the kernel's timers allow: about 0.06 ms on Linux."""
    signature = types.void()

    def codegen(context, builder, signature, args):
        _call(builder, "usleep", ir.Constant(ir.IntType(32), 1))
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def _nanoseconds(typingctx):
    """Read the monotonic clock."""
    signature = types.int64()

    def codegen(context, builder, signature, args):
        timespec = cgutils.alloca_once(builder, ir.ArrayType(ir.IntType(64), 2))
        _call(builder, "clock_gettime", ir.Constant(ir.IntType(32), time.CLOCK_MONOTONIC), timespec)
        seconds, nanoseconds = (builder.load(cgutils.gep_inbounds(builder, timespec, 0, i)) for i in (0, 1))
        return builder.add(builder.mul(seconds, ir.Constant(ir.IntType(64), 10**9)), nanoseconds)

    return signature, codegen


@inlined
def barrier_wait(worker):
    """Wait until all threads of a team, worker.threads of them, have arrived at worker.barrier.

    A thread that waits long yields its CPU. A busy process then keeps it for milliseconds, while the team waits for
    the thread behind it; a thread that sleeps runs as soon as it wakes. It sleeps early, because the thread that it
    waits for probably needs a CPU. On a quiet machine, yielding is faster.
    """
    target = (_arrive(worker.barrier) // worker.threads + 1) * worker.threads
    spins, most = 0, worker.barrier[2]
    while _read(worker.barrier) < target:
        spins += 1
        if spins == FEW_SPINS and _nanoseconds() < worker.barrier[1]:
            spins = most
        elif spins > most:
            before = _nanoseconds()
            if before < worker.barrier[1]:
                _sleep()
            else:
                _yield_cpu()
                after = _nanoseconds()
                if after - before > LONG:
                    worker.barrier[1] = after + CONTENDED
