"""The LSTM cell, forward and backward, for one row and the UNITS units of one panel.

    i, f, o = σ(z_i), σ(z_f), σ(z_o)    g = tanh(z_g)
    c_t = f·c_{t−1} + i·g               h_t = o·tanh(c_t)

A row of a panel is two SIMD vectors: [z_i | z_f] and [z_g | z_o].
"""

from typing import Any

from llvmlite import ir

from neglm_cli.kernels import cgutils, intrinsic, types
from neglm_cli.simd import LANES, Code, constant, f32, i32, integer, vector

UNITS = LANES // 2
half = ir.VectorType(f32, UNITS)
CURVED = ir.Constant(vector, [2.0] * UNITS + [1.0] * UNITS)  # tanh(x) = 2σ(2x) − 1 in the lanes of g, σ in those of o
SHIFT = ir.Constant(vector, [-1.0] * UNITS + [0.0] * UNITS)
ZERO, SECOND = integer(0), integer(LANES)  # the two vectors of a panel's row


class _Cell(Code):
    def sigmoid(self, x: Any) -> Any:
        return self.sigmoid_and_softplus(x)[0]

    def tanh(self, x: Any) -> Any:
        """Compute tanh of half a vector."""
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

    def load_half(self, pointer: Any) -> Any:
        return self.build.load(self.build.bitcast(pointer, half.as_pointer()), align=4)

    def store_half(self, value: Any, pointer: Any) -> None:
        self.build.store(value, self.build.bitcast(pointer, half.as_pointer()), align=4)

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


def _pointers(context: Any, builder: Any, arrays: Any, indices: Any) -> list[Any]:
    """Return pointers to elements of arrays. arrays: (type, value, number of its indices) each."""
    found, rest = [], cgutils.unpack_tuple(builder, indices)
    for kind, value, count in arrays:
        data = context.make_array(kind)(context, builder, value).data
        found += [builder.gep(data, [index]) for index in rest[:count]]
        rest = rest[count:]
    return found


@intrinsic
def cell_forward(typingctx, z, c, h, out, at, mask):
    """Turn pre-activations into gates, in place, and compute the next state and the output.

    at: the indices of z, c_{t−1}, c_t, h_t and the output. mask, float32: factor of the state carried to the next time
    step. (Arrays are separate arguments, because every call would count references to arrays in a tuple.)
    """
    signature = types.void(z, c, h, out, at, types.float32)

    def codegen(context, builder, signature, args):
        code = _Cell(builder)
        arrays = zip(signature.args[:4], args[:4], (1, 2, 1, 1), strict=True)
        z, c_before, c_after, h, out = _pointers(context, builder, arrays, args[4])
        gates = code.sigmoid(code.load(z, ZERO))
        others = code.fma(code.sigmoid(code.times(code.load(z, SECOND), CURVED)), CURVED, SHIFT)
        code.store(gates, z, ZERO)
        code.store(others, z, SECOND)
        i, f, g, o = code.low(gates), code.high(gates), code.low(others), code.high(others)
        cell_state = code.plus(code.times(f, code.load_half(c_before)), code.times(i, g))
        hidden = code.times(o, code.tanh(cell_state))
        masks = code.all_units(args[5])
        code.store_half(hidden, out)
        code.store_half(code.times(hidden, masks), h)
        code.store_half(code.times(cell_state, masks), c_after)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def cell_backward(typingctx, z, c, d_out, d_h, d_c, at, mask):
    """Turn gates into gradients of pre-activations, and the gradient of c_t into that of c_{t−1}, both in place.

    at: the indices of z, c_{t−1}, d_out, d_h and d_c. The gradient of h_t is d_out, from above, plus mask · d_h,
    from the next time step.
    """
    signature = types.void(z, c, d_out, d_h, d_c, at, types.float32)

    def codegen(context, builder, signature, args):
        code = _Cell(builder)
        arrays = zip(signature.args[:5], args[:5], (1, 1, 1, 1, 1), strict=True)
        z, c, d_out, d_h, d_c = _pointers(context, builder, arrays, args[5])
        gates, others = code.load(z, ZERO), code.load(z, SECOND)
        i, f, g, o = code.low(gates), code.high(gates), code.low(others), code.high(others)
        before = code.load_half(c)
        tanh_c = code.tanh(code.plus(code.times(f, before), code.times(i, g)))
        masks = code.all_units(args[6])
        d_hidden = code.plus(code.load_half(d_out), code.times(masks, code.load_half(d_h)))
        d_cell = code.plus(
            code.times(masks, code.load_half(d_c)),
            code.times(d_hidden, o, code.one_minus(code.times(tanh_c, tanh_c))),
        )
        code.store_half(code.times(d_cell, f), d_c)
        d_i = code.times(d_cell, g, i, code.one_minus(i))
        d_f = code.times(d_cell, before, f, code.one_minus(f))
        d_g = code.times(d_cell, i, code.one_minus(code.times(g, g)))
        d_o = code.times(d_hidden, tanh_c, o, code.one_minus(o))
        code.store(code.both(d_i, d_f), z, ZERO)
        code.store(code.both(d_g, d_o), z, SECOND)
        return context.get_dummy_value()

    return signature, codegen
