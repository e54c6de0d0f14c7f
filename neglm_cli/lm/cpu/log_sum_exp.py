"""Log-sum-exp over the scores of a block of words, with explicit SIMD: LLVM vectorizes neither the maximum nor the sum
well.

Both functions take flat arrays, float32: a row of scores, and offsets that are added to them. `at` has the indices of
their first values; LANES words make a vector.
"""

from typing import Any

from llvmlite import ir

from neglm_cli.kernels import cgutils, intrinsic, types
from neglm_cli.simd import LANES, Code, constant, f64, i32, integer, vector


class _Scores(Code):
    """Code for one row of scores."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any) -> None:
        super().__init__(builder)
        self.scores, self.offsets = (
            context.make_array(kind)(context, builder, value).data
            for kind, value in zip(signature.args[:2], args[:2], strict=True)
        )
        self.score_start, self.offset_start = cgutils.unpack_tuple(builder, args[2])

    def with_offsets(self, number: Any) -> Any:
        """Load the scores of a vector of words, with offsets."""
        first = self.build.mul(number, integer(LANES))
        score = self.load(self.scores, self.build.add(self.score_start, first))
        return self.build.fadd(score, self.load(self.offsets, self.build.add(self.offset_start, first)))

    def higher(self, a: Any, b: Any) -> Any:
        """Return the higher value of each lane; NaN in a is ignored."""
        return self.build.select(self.build.fcmp_ordered(">", a, b), a, b)

    def halves(self, values: Any, combine: Any) -> Any:
        """Combine all lanes into a scalar."""
        distance = LANES // 2
        while distance:
            lanes = [(lane + distance) % LANES for lane in range(LANES)]
            values = combine(self.shuffle(values, values, lanes), values)
            distance //= 2
        return self.build.extract_element(values, ir.Constant(i32, 0))


@intrinsic
def highest_score(typingctx, scores, offsets, at, vectors, top):
    """Return the highest of `vectors` vectors of scores and `top`, float32. NaN is ignored."""
    signature = types.float32(scores, offsets, at, types.int64, types.float32)

    def codegen(context, builder, signature, args):
        code = _Scores(context, builder, signature, args)
        highest = cgutils.alloca_once(builder, vector)
        builder.store(code.broadcast(args[4]), highest)
        with code.loop(args[3]) as number:
            builder.store(code.higher(code.with_offsets(number), builder.load(highest)), highest)
        return code.halves(builder.load(highest), code.higher)

    return signature, codegen


@intrinsic
def sum_of_exp(typingctx, scores, offsets, at, vectors, top):
    """Return the sum of exp(score − top), float64. top: at least the highest score."""
    signature = types.float64(scores, offsets, at, types.int64, types.float32)

    def codegen(context, builder, signature, args):
        code = _Scores(context, builder, signature, args)
        total = cgutils.alloca_once(builder, vector)
        builder.store(constant(0.0), total)
        top = code.broadcast(args[4])
        with code.loop(args[3]) as number:
            below = builder.fsub(code.with_offsets(number), top)
            too_low = builder.fcmp_ordered("<", below, constant(-87.0))
            terms = code.exp(builder.select(too_low, constant(-87.0), below))
            builder.store(builder.fadd(builder.load(total), terms), total)
        return builder.fpext(code.halves(builder.load(total), builder.fadd), f64)

    return signature, codegen
