"""SIMD code for one tile: the rows of a window's contexts against N output rows.

    s_ij = x_i · y_j + offset_j                           scores
    g_ij = rate · (positive_j − total_j σ(s_ij))          learning rate times gradient of the objective
    x_i += Σ_j g_ij y_j     y_j += Σ_i g_ij x_i           both with the rows before the update

Output j is the window's target positive_j times and a noise word total_j − positive_j times: a word drawn twice, or
drawn although it is the target, has one row, so no update is lost.

LLVM's vectorizer does not find this code. With explicit vectors, the scores of two contexts and N outputs stay in
registers while their rows are read once; horizontal sums are batched, so that one vector operation computes σ of all
scores; and the update reads and writes every row once. (If two contexts updated at once are the same word, as in
"very very", one of the updates is lost.)
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir

from neglm_cli.kernels import cgutils, intrinsic, types
from neglm_cli.simd import LANES, Code, constant, doubles, f32, integer, integers, vector

N = 8  # outputs per tile: the target and seven noise words, or eight noise words
CONTEXTS_PER_VECTOR = LANES // N


class Embeddings(NamedTuple):
    """Input and output vectors, or one thread's dimensions of them. Rows have row_size values, a multiple of LANES."""

    inputs: np.ndarray  # float32, flat
    outputs: np.ndarray  # float32, flat
    row_size: int


class Tiles(NamedTuple):
    """Windows laid out for training. Each has a slot of `x_rows`, and a fixed number of tiles, rows of the other
    arrays.

    Unused entries of a tile repeat the row of its first output, with a total of 0.
    """

    x_rows: np.ndarray  # int64 (slots, contexts): offsets of the contexts' rows in `inputs`
    y_rows: np.ndarray  # int64 (tiles, N): offsets of the rows in `outputs`
    positive: np.ndarray  # float32 (tiles, N): 1 if the output is the target
    total: np.ndarray  # float32 (tiles, N): weight of the output, as the target and as noise
    offsets: np.ndarray  # float32 (tiles, N): added to scores


class TileIndex(NamedTuple):
    """A tile of a window."""

    slot: int
    tile: int
    contexts: int  # of the window


class Scratch(NamedTuple):
    """Scratch buffers of a thread."""

    gradients: np.ndarray  # float32, cache-aligned: N for each context of a window, and for one more
    losses: np.ndarray  # float64 (LANES,): sums of the loss, in nats


class PartialScores(NamedTuple):
    """Dot products over each thread's dimensions; their sums are scores."""

    partial_scores: np.ndarray  # float32: each tile laid out like `Scratch.gradients`
    stride: int  # between threads
    threads: int


class _TileCode(Code):
    """Emits the code of one tile. The fields of an intrinsic's arguments are attributes."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any, names: tuple[str, ...]) -> None:
        super().__init__(builder)
        self._context = context
        for name, kind, value in zip(names, signature.args, args, strict=True):
            self._set(name, kind, value)
        self.chunks = builder.udiv(self.row_size, integer(LANES))
        first = builder.mul(self.tile, integer(N))
        for name in ("y_rows", "positive", "total", "offsets"):
            setattr(self, name, builder.gep(getattr(self, name), [first]))

    def _set(self, name: str, kind: Any, value: Any) -> None:
        if isinstance(kind, types.NamedTuple | types.NamedUniTuple):
            for number, (field, its_kind) in enumerate(zip(kind.fields, kind.types, strict=True)):
                self._set(field, its_kind, self.build.extract_value(value, number))
        elif isinstance(kind, types.Array):
            array = self._context.make_array(kind)(self._context, self.build, value)
            data = array.data
            if name == "x_rows":
                data = self.build.gep(data, [self.build.mul(self.slot, self.build.extract_value(array.shape, 1))])
            setattr(self, name, data)
        elif isinstance(kind, types.Integer):
            setattr(self, name, self._context.cast(self.build, value, kind, types.int64))
        else:
            setattr(self, name, value)

    inputs: Any
    outputs: Any
    row_size: Any
    x_rows: Any
    y_rows: Any
    positive: Any
    total: Any
    offsets: Any
    slot: Any
    tile: Any
    contexts: Any
    rate: Any
    gradients: Any
    losses: Any
    partial_scores: Any
    start: Any
    stride: Any
    threads: Any

    def load_n(self, base: Any) -> Any:
        pointer = self.build.bitcast(base, ir.VectorType(f32, N).as_pointer())
        return self.build.load(pointer, align=4)

    def concatenate(self, vectors: list[Any]) -> Any:
        """Concatenate the N values of each of CONTEXTS_PER_VECTOR contexts."""
        if LANES == N:
            return vectors[0]
        return self.build.shuffle_vector(vectors[0], vectors[-1], ir.Constant(integers, list(range(LANES))))

    def x_start(self, number: Any) -> Any:
        return self.item(self.x_rows, number)

    def y_starts(self) -> list[Any]:
        return [self.item(self.y_rows, integer(j)) for j in range(N)]

    @contextmanager
    def each_chunk(self) -> Iterator[Any]:
        """Emit a loop over the vectors of a row. Yield the offset of each."""
        with self.loop(self.chunks) as chunk:
            yield self.build.mul(chunk, integer(LANES))

    def each_pair(self, emit: Callable[[Any, int], None]) -> None:
        """Emit a loop over pairs of contexts: emit(first, 2) for each, and emit(first, 1) for an odd last one."""
        build = self.build
        with self.loop(build.lshr(self.contexts, integer(1))) as pair:
            emit(build.mul(pair, integer(2)), 2)
        with build.if_then(build.trunc(self.contexts, ir.IntType(1))):
            emit(build.sub(self.contexts, integer(1)), 1)

    def dot_products(self, first: Any, count: int, use: Callable[[Any, Any], None]) -> None:
        """Compute x_i · y_j of `count` contexts, starting at `first`, and call use(context, vector of scores)."""
        build = self.build
        starts = [self.x_start(build.add(first, integer(i))) for i in range(count)]
        y_starts = self.y_starts()
        sums = [cgutils.alloca_once(build, vector) for _ in range(count * N)]
        for pointer in sums:
            build.store(constant(0.0), pointer)
        with self.each_chunk() as offset:
            xs = [self.load(self.inputs, build.add(start, offset)) for start in starts]
            for j in range(N):
                y = self.load(self.outputs, build.add(y_starts[j], offset))
                for i in range(count):
                    pointer = sums[i * N + j]
                    build.store(self.fma(xs[i], y, build.load(pointer)), pointer)
        for i in range(0, count, CONTEXTS_PER_VECTOR):
            parts = [build.load(pointer) for pointer in sums[i * N : (i + CONTEXTS_PER_VECTOR) * N]]
            scores = self.sums(parts + [constant(0.0)] * (LANES - len(parts)))
            use(build.add(first, integer(i)), scores)

    def write_scores(self, base: Any, start: Any) -> None:
        """Write the dot products of all contexts, N each, to base[start:]."""

        def write(context: Any, scores: Any) -> None:
            self.store(scores, base, self.build.add(start, self.build.mul(context, integer(N))))

        self.each_pair(lambda first, count: self.dot_products(first, count, write))

    def add_partial_scores(self) -> None:
        """Sum the threads' partial scores into `gradients`, in thread order."""
        build = self.build
        with self.each_score_vector() as number:
            offset = build.mul(number, integer(LANES))
            total = cgutils.alloca_once(build, vector)
            build.store(constant(0.0), total)
            with self.loop(self.threads) as thread:
                start = build.add(self.start, build.mul(thread, self.stride))
                scores = self.load(self.partial_scores, build.add(start, offset))
                build.store(build.fadd(build.load(total), scores), total)
            self.store(build.load(total), self.gradients, offset)

    @contextmanager
    def each_score_vector(self) -> Iterator[Any]:
        """Emit a loop over the vectors of scores of all contexts. Yield their indices."""
        rounded = self.build.add(self.contexts, integer(CONTEXTS_PER_VECTOR - 1))
        with self.loop(self.build.udiv(rounded, integer(CONTEXTS_PER_VECTOR))) as number:
            yield number

    def scores_to_gradients(self) -> None:
        """Replace scores by gradients, in place, and add to the loss. Iterations are independent: σ has a long
        latency, but many are in flight."""
        build = self.build
        positive_n, total_n, offsets_n = (self.load_n(base) for base in (self.positive, self.total, self.offsets))
        offsets = self.concatenate([offsets_n] * CONTEXTS_PER_VECTOR)
        rate = self.broadcast(self.rate)
        losses = build.bitcast(self.losses, doubles.as_pointer())
        loss = cgutils.alloca_once_value(build, build.load(losses, align=8))
        with self.each_score_vector() as number:
            offset = build.mul(number, integer(LANES))
            last = build.add(build.mul(number, integer(CONTEXTS_PER_VECTOR)), integer(CONTEXTS_PER_VECTOR - 1))
            is_context = build.icmp_signed("<", last, self.contexts)  # an odd last context has no partner
            zeros = ir.Constant(ir.VectorType(f32, N), [0.0] * N)
            positive, total = (
                self.concatenate([one, build.select(is_context, one, zeros)] if CONTEXTS_PER_VECTOR == 2 else [one])
                for one in (positive_n, total_n)
            )
            s = build.fadd(self.load(self.gradients, offset), offsets)
            sigmoid, softplus = self.sigmoid_and_softplus(s)
            gradient = build.fmul(rate, build.fsub(positive, build.fmul(total, sigmoid)))
            self.store(gradient, self.gradients, offset)
            new = build.fsub(build.fmul(total, softplus), build.fmul(positive, s))
            build.store(build.fadd(build.load(loss), build.fpext(new, doubles)), loss)
        build.store(build.load(loss), losses, align=8)

    def update(self) -> None:
        """Update all rows, the contexts with the outputs before their update. (If each context saw outputs updated by
        previous contexts, vectors would be worse, by one point on WordSim-353.)"""
        build = self.build
        updated = [cgutils.alloca_once(build, vector) for _ in range(N)]
        y_starts = self.y_starts()
        with self.each_chunk() as offset:
            y_indices = [build.add(start, offset) for start in y_starts]
            ys = [self.load(self.outputs, index) for index in y_indices]
            for y, pointer in zip(ys, updated, strict=True):
                build.store(y, pointer)

            def update_contexts(first: Any, count: int) -> None:
                numbers = [build.add(first, integer(i)) for i in range(count)]
                x_indices = [build.add(self.x_start(number), offset) for number in numbers]
                xs = [self.load(self.inputs, index) for index in x_indices]
                new = [[x, constant(0.0)] for x in xs]  # two accumulators each, to halve the dependency chain
                for j in range(N):
                    for i in range(count):
                        index = build.add(build.mul(numbers[i], integer(N)), integer(j))
                        g = self.broadcast(self.item(self.gradients, index))
                        new[i][j & 1] = self.fma(g, ys[j], new[i][j & 1])
                        build.store(self.fma(g, xs[i], build.load(updated[j])), updated[j])
                for i in range(count):
                    self.store(build.fadd(*new[i]), self.inputs, x_indices[i])

            self.each_pair(update_contexts)
            for j in reversed(range(N)):  # row 0 last, because unused entries repeat it
                self.store(build.load(updated[j]), self.outputs, y_indices[j])


def _intrinsic(emit: Callable[[_TileCode], None], **arguments: Any) -> tuple[Any, Any]:
    """Return the signature and the code generator of an intrinsic."""
    signature = types.void(*(types.unliteral(kind) for kind in arguments.values()))

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit(_TileCode(context, builder, signature, args, tuple(arguments)))
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def train_tile(typingctx, index, embeddings, tiles, rate, scratch):
    """Train on one tile, in place, and add its loss to scratch.losses. rate: float32."""

    def emit(code):
        code.write_scores(code.gradients, integer(0))
        code.scores_to_gradients()
        code.update()

    return _intrinsic(emit, index=index, embeddings=embeddings, tiles=tiles, rate=rate, scratch=scratch)


@intrinsic
def score_tile_part(typingctx, index, embeddings, tiles, partial, start):
    """Write the dot products of a tile over a thread's dimensions to partial_scores[start:]."""

    def emit(code):
        code.write_scores(code.partial_scores, code.start)

    return _intrinsic(emit, index=index, embeddings=embeddings, tiles=tiles, partial=partial, start=start)


@intrinsic
def train_tile_part(typingctx, index, embeddings, tiles, rate, scratch, partial, start):
    """Train a thread's dimensions of one tile, in place, with the sums of all threads' partial scores. Those of the
    first thread are partial_scores[start:]."""

    def emit(code):
        code.add_partial_scores()
        code.scores_to_gradients()
        code.update()

    return _intrinsic(
        emit, index=index, embeddings=embeddings, tiles=tiles, rate=rate, scratch=scratch, partial=partial, start=start
    )
