"""The arithmetic of a window, in machine vectors: the rows of its contexts against a tile of N output rows.

    s_ij = x_i · y_j + offset_j                           scores
    g_ij = rate · (positive_j − total_j σ(s_ij))          the objective's gradient, times the learning rate
    x_i += Σ_j g_ij y_j     y_j += Σ_i g_ij x_i           both with the rows as they were

Output j is the window's target positive_j times, and a noise word total_j − positive_j times: a word that is drawn
twice, or is the target too, is one row, and loses nothing.

LLVM's vectorizer does not find this by itself. Written with vectors, the scores of two contexts and N outputs stay
in registers while their rows are read once; the sums across lanes are made together, so that σ is one vector
operation for all of them; and the update reads and writes every row once. (Of two contexts that are updated together
and are the same word, a word that stands twice in a row, one is lost.)
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from neglm_cli.simd import LANES, Code, constant, doubles, f32, integer, integers, vector

N = 8  # outputs of a tile: the target and seven noise words, or eight noise words
AT_ONCE = LANES // N  # contexts whose scores share a vector


class _Tile(Code):
    """One tile: the arguments of an intrinsic by name, and the code of its passes."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any, names: tuple[str, ...]) -> None:
        super().__init__(builder)
        given = dict(zip(names, args, strict=True))
        for name, kind in zip(names, signature.args, strict=True):
            if isinstance(kind, types.Array):
                array = context.make_array(kind)(context, builder, given[name])
                row = given[ROW_OF[name]] if name in ROW_OF else integer(0)
                length = builder.extract_value(array.shape, 1) if name in ROW_OF else integer(0)
                setattr(self, name, builder.gep(array.data, [builder.mul(row, length)]))
            else:
                setattr(self, name, given[name])

    inputs: Any
    outputs: Any
    x_base: Any
    y_base: Any
    chunks: Any
    x_rows: Any
    contexts: Any
    y_rows: Any
    positive: Any
    total: Any
    offsets: Any
    rate: Any
    gradients: Any
    scores: Any
    scores_start: Any
    scores_stride: Any
    parts: Any
    losses: Any

    def eight(self, base: Any, index: Any) -> Any:
        pointer = self.build.bitcast(self.build.gep(base, [index]), ir.VectorType(f32, N).as_pointer())
        return self.build.load(pointer, align=4)

    def beside(self, eights: list[Any]) -> Any:
        """One vector of the numbers of one context, or of two."""
        if LANES == N:
            return eights[0]
        return self.build.shuffle_vector(eights[0], eights[-1], ir.Constant(integers, list(range(LANES))))

    def x_start(self, number: Any) -> Any:
        return self.build.add(self.x_base, self.item(self.x_rows, number))

    def y_starts(self) -> list[Any]:
        return [self.build.add(self.y_base, self.item(self.y_rows, integer(j))) for j in range(N)]

    @contextmanager
    def each_chunk(self) -> Iterator[Any]:
        """A loop over the chunks of rows; gives how far into a row each one lies."""
        with self.loop(self.chunks) as chunk:
            yield self.build.mul(chunk, integer(LANES))

    def in_pairs(self, step: Callable[[Any, int], None]) -> None:
        """step(first, 2) for every two contexts, and step(first, 1) for one that is left."""
        build = self.build
        with self.loop(build.lshr(self.contexts, integer(1))) as pair:
            step(build.mul(pair, integer(2)), 2)
        with build.if_then(build.trunc(self.contexts, ir.IntType(1))):
            step(build.sub(self.contexts, integer(1)), 1)

    def dots(self, first: Any, count: int, take: Callable[[Any, int, Any], None]) -> None:
        """x_i · y_j for `count` contexts from `first` on: take(first, count, scores) gets a machine vector of them."""
        build = self.build
        starts = [self.x_start(build.add(first, integer(i))) for i in range(count)]
        y_starts = self.y_starts()
        sums = [cgutils.alloca_once(build, vector) for _ in range(count * N)]
        for place in sums:
            build.store(constant(0.0), place)
        with self.each_chunk() as offset:
            xs = [self.load(self.inputs, build.add(start, offset)) for start in starts]
            for j in range(N):
                y = self.load(self.outputs, build.add(y_starts[j], offset))
                for i in range(count):
                    place = sums[i * N + j]
                    build.store(self.fma(xs[i], y, build.load(place)), place)
        for i in range(0, count, AT_ONCE):
            parts = [build.load(place) for place in sums[i * N : (i + AT_ONCE) * N]]
            scores = self.sums(parts + [constant(0.0)] * (LANES - len(parts)))
            take(build.add(first, integer(i)), min(AT_ONCE, count - i), scores)

    def write_scores(self, base: Any, start: Any) -> None:
        """The scores of all contexts, N each, to base[start:]."""

        def write(first: Any, count: int, scores: Any) -> None:
            self.store(scores, base, self.build.add(start, self.build.mul(first, integer(N))))

        self.in_pairs(lambda first, count: self.dots(first, count, write))

    def add_parts(self) -> None:
        """Scores from their parts, in the order of these, to where gradients will be."""
        build = self.build
        with self.each_vector() as place:
            total = cgutils.alloca_once(build, vector)
            build.store(constant(0.0), total)
            with self.loop(self.parts) as part:
                start = build.add(self.scores_start, build.mul(part, self.scores_stride))
                scores = self.load(self.scores, build.add(start, build.mul(place, integer(LANES))))
                build.store(build.fadd(build.load(total), scores), total)
            self.store(build.load(total), self.gradients, build.mul(place, integer(LANES)))

    @contextmanager
    def each_vector(self) -> Iterator[Any]:
        """A loop over the machine vectors that the scores of all contexts fill; gives their numbers."""
        rounded = self.build.add(self.contexts, integer(AT_ONCE - 1))
        with self.loop(self.build.udiv(rounded, integer(AT_ONCE))) as place:
            yield place

    def take_gradients(self) -> None:
        """Scores become gradients, in their place, and the loss is added up. No vector waits for another here: σ takes
        long from beginning to end, but many can be under way."""
        build = self.build
        offsets = self.beside([self.eight(self.offsets, integer(0))] * AT_ONCE)
        positive_of_one, total_of_one = (self.eight(base, integer(0)) for base in (self.positive, self.total))
        rate = self.broadcast(self.rate)
        losses = build.bitcast(self.losses, doubles.as_pointer())
        loss = cgutils.alloca_once_value(build, build.load(losses, align=8))
        with self.each_vector() as place:
            last = build.add(build.mul(place, integer(AT_ONCE)), integer(AT_ONCE - 1))
            there = build.icmp_signed("<", last, self.contexts)  # with an odd number of contexts, one is not
            nothing = ir.Constant(ir.VectorType(f32, N), [0.0] * N)
            positive, total = (
                self.beside([one, build.select(there, one, nothing)] if AT_ONCE == 2 else [one])
                for one in (positive_of_one, total_of_one)
            )
            s = build.fadd(self.load(self.gradients, build.mul(place, integer(LANES))), offsets)
            sigmoid, softplus = self.sigmoid_and_softplus(s)
            gradient = build.fmul(rate, build.fsub(positive, build.fmul(total, sigmoid)))
            self.store(gradient, self.gradients, build.mul(place, integer(LANES)))
            new = build.fsub(build.fmul(total, softplus), build.fmul(positive, s))
            build.store(build.fadd(build.load(loss), build.fpext(new, doubles)), loss)
        build.store(build.load(loss), losses, align=8)

    def update(self) -> None:
        """Move all rows along the gradients, each with the outputs as they were. (If the contexts came one after the
        other, and each saw what those before it had made of the outputs, vectors would be worse: a point less on
        WordSim-353.)"""
        build = self.build
        moved = [cgutils.alloca_once(build, vector) for _ in range(N)]
        y_starts = self.y_starts()
        with self.each_chunk() as offset:
            y_places = [build.add(start, offset) for start in y_starts]
            ys = [self.load(self.outputs, place) for place in y_places]
            for y, place in zip(ys, moved, strict=True):
                build.store(y, place)

            def move(first: Any, count: int) -> None:
                numbers = [build.add(first, integer(i)) for i in range(count)]
                places = [build.add(self.x_start(number), offset) for number in numbers]
                xs = [self.load(self.inputs, place) for place in places]
                new = [[x, constant(0.0)] for x in xs]  # two sums each: neither waits long for its last term
                for j in range(N):
                    for i in range(count):
                        slot = build.add(build.mul(numbers[i], integer(N)), integer(j))
                        g = self.broadcast(self.item(self.gradients, slot))
                        new[i][j & 1] = self.fma(g, ys[j], new[i][j & 1])
                        build.store(self.fma(g, xs[i], build.load(moved[j])), moved[j])
                for i in range(count):
                    self.store(build.fadd(*new[i]), self.inputs, places[i])

            self.in_pairs(move)
            for j in reversed(range(N)):  # so that row 0 may also stand for rows that are not used
                self.store(build.load(moved[j]), self.outputs, y_places[j])


# Plans of several windows lie in the rows of 2-d arrays: the argument that says which row it is.
ROW_OF = {"x_rows": "window", "y_rows": "tile", "positive": "tile", "total": "tile", "offsets": "tile"}
SCALARS = dict.fromkeys(
    ("x_base", "y_base", "chunks", "window", "contexts", "tile", "scores_start", "scores_stride", "parts"), types.int64
) | {"rate": types.float32}


def _tile(emit: Callable[[_Tile], None], **arguments: Any) -> tuple[Any, Any]:
    """The signature and the code of an intrinsic on a tile."""
    signature = types.void(*(SCALARS.get(name, kind) for name, kind in arguments.items()))

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit(_Tile(context, builder, signature, args, tuple(arguments)))
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def train_tile(
    typingctx, inputs, outputs, x_base, y_base, chunks, window, x_rows, contexts, tile, y_rows, positive, total,
    offsets, rate, gradients, losses,
):  # fmt: skip
    """Train one tile in place.

    inputs, outputs: float32, flat; rows of `chunks` machine vectors start at x_base + x_rows[i] and y_base + y_rows[j].
        A y_rows[j] that is not needed repeats y_rows[0].
    x_rows: int64, by window and context. y_rows: int64 (·, N); positive, total, offsets: float32 (·, N); by tile.
    gradients: room for N numbers per context and one context more.
    losses: float64 (LANES,): the loss is added to these, in nats.
    """

    def emit(code):
        code.write_scores(code.gradients, integer(0))
        code.take_gradients()
        code.update()

    return _tile(
        emit, inputs=inputs, outputs=outputs, x_base=x_base, y_base=y_base, chunks=chunks, window=window,
        x_rows=x_rows, contexts=contexts, tile=tile, y_rows=y_rows, positive=positive, total=total,
        offsets=offsets, rate=rate, gradients=gradients, losses=losses,
    )  # fmt: skip


@intrinsic
def score_part(
    typingctx, inputs, outputs, x_base, y_base, chunks, window, x_rows, contexts, tile, y_rows, scores, scores_start
):  # fmt: skip
    """What some dimensions of the rows add to the scores of a tile: written to scores[scores_start:], N per context."""
    return _tile(
        lambda code: code.write_scores(code.scores, code.scores_start),
        inputs=inputs, outputs=outputs, x_base=x_base, y_base=y_base, chunks=chunks,
        window=window, x_rows=x_rows, contexts=contexts, tile=tile, y_rows=y_rows, scores=scores,
        scores_start=scores_start,
    )  # fmt: skip


@intrinsic
def train_part(
    typingctx, inputs, outputs, x_base, y_base, chunks, window, x_rows, contexts, tile, y_rows, positive, total,
    offsets, rate, gradients, losses, scores, scores_start, scores_stride, parts,
):  # fmt: skip
    """Like `train_tile`, for some dimensions of the rows, with scores that are the sum of `parts` parts, each
    scores_stride behind the one before; see `score_part`."""

    def emit(code):
        code.add_parts()
        code.take_gradients()
        code.update()

    return _tile(
        emit, inputs=inputs, outputs=outputs, x_base=x_base, y_base=y_base, chunks=chunks, window=window,
        x_rows=x_rows, contexts=contexts, tile=tile, y_rows=y_rows, positive=positive, total=total,
        offsets=offsets, rate=rate, gradients=gradients, losses=losses, scores=scores,
        scores_start=scores_start, scores_stride=scores_stride, parts=parts,
    )  # fmt: skip
