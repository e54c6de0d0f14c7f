"""The cell of an LSTM, forward and backward, for the UNITS units of one panel and one row.

    i, f, o = σ(z_i), σ(z_f), σ(z_o)    g = tanh(z_g)
    c_t = f·c_{t−1} + i·g               h_t = o·tanh(c_t)

A row of a panel is two machine vectors: [z_i | z_f] and [z_g | z_o].
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from neglm_cli.simd import LANES, Code, constant, f32, i32, vector

UNITS = LANES // 2
half = ir.VectorType(f32, UNITS)
CURVED = ir.Constant(vector, [2.0] * UNITS + [1.0] * UNITS)  # tanh(x) = 2σ(2x) − 1 in the lanes of g, σ in those of o
SHIFT = ir.Constant(vector, [-1.0] * UNITS + [0.0] * UNITS)


class _Cell(Code):
    def sigmoid(self, x: Any) -> Any:
        return self.sigmoid_and_softplus(x)[0]

    def tanh(self, x: Any) -> Any:
        """Of half a vector."""
        wide = self.build.fmul(self.both(x, x), constant(2.0))
        return self.low(self.fma(self.sigmoid(wide), constant(2.0), constant(-1.0)))

    def low(self, x: Any) -> Any:
        return self._half(x, 0)

    def high(self, x: Any) -> Any:
        return self._half(x, UNITS)

    def _half(self, x: Any, first: int) -> Any:
        lanes = ir.Constant(ir.VectorType(i32, UNITS), list(range(first, first + UNITS)))
        return self.build.shuffle_vector(x, x, lanes)

    def both(self, low: Any, high: Any) -> Any:
        lanes = ir.Constant(ir.VectorType(i32, LANES), list(range(LANES)))
        return self.build.shuffle_vector(low, high, lanes)

    def load_half(self, base: Any, index: Any) -> Any:
        return self.build.load(self._half_pointer(base, index), align=4)

    def store_half(self, value: Any, base: Any, index: Any) -> None:
        self.build.store(value, self._half_pointer(base, index), align=4)

    def _half_pointer(self, base: Any, index: Any) -> Any:
        return self.build.bitcast(self.build.gep(base, [index]), half.as_pointer())

    def times(self, *factors: Any) -> Any:
        product = factors[0]
        for factor in factors[1:]:
            product = self.build.fmul(product, factor)
        return product

    def plus(self, a: Any, b: Any) -> Any:
        return self.build.fadd(a, b)

    def one_minus(self, x: Any) -> Any:
        return self.build.fsub(ir.Constant(half, [1.0] * UNITS), x)

    def all_units(self, scalar: Any) -> Any:
        return self.low(self.broadcast(scalar))


def _arrays(context: Any, builder: Any, signature: Any, args: Any) -> list[Any]:
    """The arguments, with pointers in place of arrays."""
    return [
        context.make_array(kind)(context, builder, value).data if isinstance(kind, types.Array) else value
        for kind, value in zip(signature.args, args, strict=True)
    ]


@intrinsic
def cell_forward(typingctx, z, z_start, c, c_before, c_after, h, h_after, out, out_start, keep):
    """From z to gates, in place; c_t and h_t to c[c_after:] and h[h_after:], times `keep`; h_t to out[out_start:]."""
    signature = types.void(
        z, types.int64, c, types.int64, types.int64, h, types.int64, out, types.int64, types.float32
    )  # fmt: skip

    def codegen(context, builder, signature, args):
        code = _Cell(builder)
        z, z_start, c, c_before, c_after, h, h_after, out, out_start, keep = _arrays(context, builder, signature, args)
        second = builder.add(z_start, ir.Constant(ir.IntType(64), LANES))
        gates = code.sigmoid(code.load(z, z_start))
        others = code.fma(code.sigmoid(code.times(code.load(z, second), CURVED)), CURVED, SHIFT)
        code.store(gates, z, z_start)
        code.store(others, z, second)
        i, f, g, o = code.low(gates), code.high(gates), code.low(others), code.high(others)
        memory = code.plus(code.times(f, code.load_half(c, c_before)), code.times(i, g))
        result = code.times(o, code.tanh(memory))
        kept = code.all_units(keep)
        code.store_half(result, out, out_start)
        code.store_half(code.times(result, kept), h, h_after)
        code.store_half(code.times(memory, kept), c, c_after)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def cell_backward(typingctx, z, z_start, c, c_before, dh, dh_start, dh_later, dh_later_start, dc, dc_start, keep):
    """From gates to the gradient of z, in place, and from the gradient of c_t to that of c_{t−1}, in place.

    The gradient of h_t is dh, from above, and `keep` times dh_later, from the next step."""
    whole = types.int64
    signature = types.void(z, whole, c, whole, dh, whole, dh_later, whole, dc, whole, types.float32)

    def codegen(context, builder, signature, args):
        code = _Cell(builder)
        z, z_start, c, c_before, dh, dh_start, dh_later, dh_later_start, dc, dc_start, keep = _arrays(
            context, builder, signature, args
        )
        second = builder.add(z_start, ir.Constant(ir.IntType(64), LANES))
        gates, others = code.load(z, z_start), code.load(z, second)
        i, f, g, o = code.low(gates), code.high(gates), code.low(others), code.high(others)
        before = code.load_half(c, c_before)
        bent = code.tanh(code.plus(code.times(f, before), code.times(i, g)))
        kept = code.all_units(keep)
        d_h = code.plus(code.load_half(dh, dh_start), code.times(kept, code.load_half(dh_later, dh_later_start)))
        d_c = code.plus(
            code.times(kept, code.load_half(dc, dc_start)),
            code.times(d_h, o, code.one_minus(code.times(bent, bent))),
        )
        code.store_half(code.times(d_c, f), dc, dc_start)
        d_i = code.times(d_c, g, i, code.one_minus(i))
        d_f = code.times(d_c, before, f, code.one_minus(f))
        d_g = code.times(d_c, i, code.one_minus(code.times(g, g)))
        d_o = code.times(d_h, bent, o, code.one_minus(o))
        code.store(code.both(d_i, d_f), z, z_start)
        code.store(code.both(d_g, d_o), z, second)
        return context.get_dummy_value()

    return signature, codegen
