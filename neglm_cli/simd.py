"""Explicit SIMD in kernels, where LLVM's vectorizer fails: intrinsics whose code is emitted with `Code`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from llvmlite import binding, ir

from neglm_cli.kernels import cgutils, intrinsic, types

LANES = 16 if binding.get_host_cpu_features().get("avx512f") else 8  # float32 values of a SIMD vector
CACHE_LINE = 64  # bytes
ROW_UNIT = 16  # rows are padded to a multiple of this: one cache line, and whole vectors

f32, f64, i32, i64 = ir.FloatType(), ir.DoubleType(), ir.IntType(32), ir.IntType(64)
vector = ir.VectorType(f32, LANES)
integers = ir.VectorType(i32, LANES)
doubles = ir.VectorType(f64, LANES)

# e^r on [-ln2/2, ln2/2] and ln(1+e)/e on [0, 1], highest power first: Chebyshev fits, accurate to 1e-7
EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 0.5, 1.0, 1.0)
LOG1P = (-0.0085746762, 0.044214192, -0.10785368, 0.17757024, -0.24499612, 0.33276177, -0.49997449, 0.99999981)


def constant(value: float) -> Any:
    return ir.Constant(vector, [value] * LANES)


def int32s(value: int) -> Any:
    return ir.Constant(integers, [value] * LANES)


def integer(value: int) -> Any:
    return ir.Constant(i64, value)


class Code:
    """Emits vector code into a function that Numba compiles."""

    def __init__(self, builder: Any) -> None:
        self.build = builder
        self._fma, self._rint = (
            cgutils.get_or_insert_function(builder.module, ir.FunctionType(vector, [vector] * count), name)
            for count, name in ((3, f"llvm.fma.v{LANES}f32"), (1, f"llvm.rint.v{LANES}f32"))
        )

    def pointer(self, base: Any, index: Any) -> Any:
        return self.build.bitcast(self.build.gep(base, [index]), vector.as_pointer())

    def load(self, base: Any, index: Any) -> Any:
        return self.build.load(self.pointer(base, index), align=4)

    def store(self, value: Any, base: Any, index: Any) -> None:
        self.build.store(value, self.pointer(base, index), align=4)

    def item(self, base: Any, index: Any) -> Any:
        return self.build.load(self.build.gep(base, [index]))

    def broadcast(self, scalar: Any) -> Any:
        undefined = ir.Constant(vector, ir.Undefined)
        first = self.build.insert_element(undefined, scalar, ir.Constant(i32, 0))
        return self.shuffle(first, undefined, [0] * LANES)

    def shuffle(self, a: Any, b: Any, lanes: list[int]) -> Any:
        return self.build.shuffle_vector(a, b, ir.Constant(integers, lanes))

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        return self.build.call(self._fma, [a, b, c])

    def polynomial(self, coefficients: tuple[float, ...], x: Any) -> Any:
        result = constant(coefficients[0])
        for coefficient in coefficients[1:]:
            result = self.fma(result, x, constant(coefficient))
        return result

    def exp(self, x: Any) -> Any:
        """Compute e^x for x from -87 to 0: 2^n times a polynomial in the remainder."""
        n = self.build.call(self._rint, [self.build.fmul(x, constant(1.4426950408889634))])
        rest = self.fma(n, constant(2.12194440e-4), self.fma(n, constant(-0.693359375), x))  # ln 2 in two parts
        bits = self.build.bitcast(self.polynomial(EXP, rest), integers)
        exponent = self.build.shl(self.build.fptosi(n, integers), int32s(23))
        return self.build.bitcast(self.build.add(bits, exponent), vector)

    def sigmoid_and_softplus(self, s: Any) -> tuple[Any, Any]:
        """Compute σ(s) and log(1 + e^s) without overflow; NaN stays NaN."""
        zero, one = constant(0.0), constant(1.0)
        positive = self.build.fcmp_ordered(">", s, zero)
        minus_abs = self.build.select(positive, self.build.fsub(zero, s), s)
        too_low = self.build.fcmp_ordered("<", minus_abs, constant(-87.0))
        e = self.exp(self.build.select(too_low, constant(-87.0), minus_abs))
        sigmoid = self.build.fdiv(self.build.select(positive, one, e), self.build.fadd(e, one))
        softplus = self.fma(self.polynomial(LOG1P, e), e, self.build.select(positive, s, zero))
        return sigmoid, softplus

    def sums(self, parts: list[Any]) -> Any:
        """Sum the lanes of each vector: lane l of the result is the sum of parts[l].

        Each round adds the halves of pairs of vectors into one, with two shuffles and one addition: about
        three instructions per sum instead of eight.
        """
        parts = [parts[lane] for lane in SUM_ORDER]
        for low, high in HALVINGS:
            parts = [
                self.build.fadd(self.shuffle(a, b, low), self.shuffle(a, b, high))
                for a, b in zip(parts[::2], parts[1::2], strict=True)
            ]
        return parts[0]

    @contextmanager
    def loop(self, count: Any) -> Iterator[Any]:
        with cgutils.for_range(self.build, count, intp=i64) as loop:
            yield loop.index


def _halvings() -> list[tuple[list[int], list[int]]]:
    """Return the lanes of two concatenated vectors that each round adds, chosen so that a shuffle is one
    instruction."""
    rounds = []
    if LANES == 16:
        rounds.append(_pick([range(8), range(16, 24)], 8))
    quarters = [range(start, start + 4) for start in range(0, 2 * LANES, 8)]
    rounds.append(_pick(quarters, 4))
    rounds.append(_pick([range(s + v, s + v + 2) for s in range(0, LANES, 4) for v in (0, LANES)], 2))
    singles = [s + v + i for s in range(0, LANES, 4) for v in (0, LANES) for i in (0, 2)]
    rounds.append(_pick([range(single, single + 1) for single in singles], 1))
    return rounds


def _pick(lows: list[range], distance: int) -> tuple[list[int], list[int]]:
    low = [lane for lanes in lows for lane in lanes]
    return low, [lane + distance for lane in low]


HALVINGS = _halvings()


def _sum_order() -> list[int]:
    """Return the order in which vectors must enter `sums` to end in lanes 0, 1, 2, ..."""
    owners = [[part] * LANES for part in range(LANES)]
    for low, high in HALVINGS:
        pairs = [a + b for a, b in zip(owners[::2], owners[1::2], strict=True)]
        assert all(pair[i] == pair[j] for pair in pairs for i, j in zip(low, high, strict=True))
        owners = [[pair[lane] for lane in low] for pair in pairs]
    order = [0] * LANES
    for lane, part in enumerate(owners[0]):
        order[part] = lane
    return order


SUM_ORDER = _sum_order()


def aligned(length: int) -> np.ndarray:
    """Return zeros, float32, aligned to a cache line."""
    raw = np.zeros(length + CACHE_LINE // 4, np.float32)
    skipped = -raw.ctypes.data % CACHE_LINE // 4
    return raw[skipped : skipped + length]


@intrinsic
def prefetch_row(typingctx, matrix, start, chunks):
    """Prefetch a row."""
    signature = types.void(matrix, types.int64, types.int64)

    def codegen(context, builder, signature, args):
        code = Code(builder)
        base = context.make_array(signature.args[0])(context, builder, args[0]).data
        kind = ir.FunctionType(ir.VoidType(), [base.type, i32, i32, i32])
        function = builder.module.declare_intrinsic("llvm.prefetch", [base.type], kind)
        to_write, keep, data_cache = (ir.Constant(i32, value) for value in (1, 3, 1))
        with code.loop(args[2]) as chunk:
            address = builder.gep(base, [builder.add(args[1], builder.mul(chunk, integer(LANES)))])
            builder.call(function, [address, to_write, keep, data_cache])
        return context.get_dummy_value()

    return signature, codegen
