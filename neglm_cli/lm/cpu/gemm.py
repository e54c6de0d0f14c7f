"""Matrix products, C = A·B or C += A·B, in float32: the bulk of the work of a language model.

Columns of B and C come in panels of PANEL. A tile, a few rows of one panel of C, stays in registers while A and B
stream past: each inner step loads one row of the panel of B and broadcasts one value of each row of A. BLAS does this,
too, but it repacks B at every call, has threads of its own, and is slow for the few rows of an LSTM time step.

Operands are views of flat arrays, so that one product serves every layout. Strides count values:

    Rows    A[i, k] is data[start + i·row + (k // inner)·block + k % inner]
    Columns A[i, k] is data[start + k·row + i], A read transposed
    Panels  B[k, j] and C[k, j] are data[start + (j // PANEL)·panel + k·row + j % PANEL]

`matmul_transposed` sums over the rows of a minibatch in the order that `batch_parts` fixes.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from neglm_cli.kernels import inlined, outlined
from neglm_cli.simd import LANES, Code, constant, integer, vector

PANEL = 2 * LANES  # columns: two machine vectors
SIZES = (10, 5, 2, 1) if LANES == 16 else (5, 2, 1)  # rows of a tile; the largest leaves few registers free
MOST_ROWS = SIZES[0]
UNROLLED, UNROLLED_ACROSS = 4, 5  # inner steps; a batch of 20 has parts of 5 rows
L2_VALUES = 1 << 17  # values of A that stay in a core's L2 cache while panels of B stream past
L1_ROWS = 100  # rows of a panel of B that stay in its L1 cache


class Rows(NamedTuple):
    """A matrix that is read row by row, in blocks of columns."""

    data: np.ndarray  # float32, flat
    start: int
    row: int  # stride of rows
    block: int  # stride of blocks


class Columns(NamedTuple):
    """A matrix that is read column by column: the transpose of what lies in memory."""

    data: np.ndarray  # float32, flat
    start: int
    row: int  # stride of rows in memory


class Panels(NamedTuple):
    """A matrix whose columns lie in panels."""

    data: np.ndarray  # float32, flat
    start: int
    row: int  # stride of rows
    panel: int  # stride of panels


class Extent(NamedTuple):
    """The size of a product: the inner dimension has `blocks` blocks of `inner` steps."""

    rows: int
    inner: int
    blocks: int
    panels: int
    narrow: bool  # whether the last panel has a single vector of columns


class Reduction(NamedTuple):
    """How a sum over the rows of a minibatch is ordered, and scratch for it."""

    parts: np.ndarray  # int64: see `batch_parts`
    scratch: np.ndarray  # float32, flat: 2·PANEL values for each row of the result


ARGUMENTS = (
    "rows", "wide", "a", "a_start", "a_stride", "a_block", "b", "b_start", "b_step", "b_block", "c", "c_start", "c_row",
    "steps", "blocks", "accumulate",
)  # fmt: skip


def _tile(across: bool) -> Any:
    """Make an intrinsic that computes one tile, C (+)= A·B; `across` if A is read transposed.

    tile(a, b, c, at, size, accumulate). at: where the tile starts in a, b and c, then the strides of rows and blocks of
    a, of rows and blocks of b, and of rows of c. size: (rows, one of SIZES; whether the panel has two vectors; inner
    steps; blocks). Arrays are arguments of their own: in a tuple, every call would count references to them.
    """

    @intrinsic
    def tile(typingctx, a, b, c, at, size, accumulate):
        signature = types.void(a, b, c, at, size, types.boolean)

        def codegen(context, builder, signature, args):
            a, b, c = (
                context.make_array(kind)(context, builder, value).data
                for kind, value in zip(signature.args[:3], args[:3], strict=True)
            )
            a_start, b_start, c_start, a_row, a_block, b_row, b_block, c_row = cgutils.unpack_tuple(builder, args[3])
            rows, wide, inner, blocks = cgutils.unpack_tuple(builder, args[4])
            given = [
                rows, wide, a, a_start, a_row, a_block, b, b_start, b_row, b_block, c, c_start, c_row, inner, blocks,
                args[5],
            ]  # fmt: skip
            builder.call(_tile_function(builder.module, given, across), given)
            return context.get_dummy_value()

        return signature, codegen

    return tile


def _tile_function(module: Any, given: list[Any], across: bool) -> Any:
    """Return a function for tiles, one for all that call it: inlined, it would take long to compile."""
    name = f"neglm_tile_{'across' if across else 'along'}"
    kind = ir.FunctionType(ir.VoidType(), [value.type for value in given])
    function = cgutils.get_or_insert_function(module, kind, name)
    if not function.blocks:
        function.linkage = "linkonce_odr"
        function.attributes.add("noinline")
        builder = ir.IRBuilder(function.append_basic_block())
        arguments = dict(zip(ARGUMENTS, function.args, strict=True))
        for size in SIZES:
            with builder.if_then(builder.icmp_signed("==", arguments["rows"], integer(size))):
                with builder.if_else(arguments["wide"]) as (two, one):
                    with two:
                        _Tile(builder, size, 2, arguments).emit(across)
                    with one:
                        _Tile(builder, size, 1, arguments).emit(across)
        builder.ret_void()
    return function


class _Tile(Code):
    """The code of one tile of a fixed size."""

    def __init__(self, builder: Any, rows: int, vectors: int, given: dict[str, Any]) -> None:
        super().__init__(builder)
        self.rows = range(rows)
        self.vectors = range(vectors)
        self.given = given
        self.totals = [[cgutils.alloca_once(builder, vector) for _ in self.vectors] for _ in self.rows]
        self.b_start = builder.gep(given["b"], [given["b_start"]])
        self.b_row = cgutils.alloca_once_value(builder, self.b_start)

    def emit(self, across: bool) -> None:
        build, given = self.build, self.given
        with build.if_else(given["accumulate"]) as (goes_on, begins):
            with goes_on:
                for total, place in self.places():
                    build.store(self.load(given["c"], place), total)
            with begins:
                for total, _ in self.places():
                    build.store(constant(0.0), total)
        start = build.gep(given["a"], [given["a_start"]])
        with self.loop(given["blocks"]) as block:
            first = build.gep(start, [build.mul(block, given["a_block"])])
            build.store(build.gep(self.b_start, [build.mul(block, given["b_block"])]), self.b_row)
            if across:
                self.across(first)
            else:
                self.along([build.gep(first, [build.mul(given["a_stride"], integer(i))]) for i in self.rows])
        for total, place in self.places():
            self.store(build.load(total), given["c"], place)

    def places(self) -> Iterator[tuple[Any, Any]]:
        """Yield the sums, each with its place in C."""
        for i in self.rows:
            row = self.build.add(self.given["c_start"], self.build.mul(self.given["c_row"], integer(i)))
            for v in self.vectors:
                yield self.totals[i][v], self.build.add(row, integer(v * LANES))

    def along(self, rows: list[Any]) -> None:
        """All steps of a block where the numbers of a row of A are neighbours."""
        for step in self.steps(UNROLLED):
            self.take([self.build.gep(row, [step]) for row in rows])

    def across(self, first: Any) -> None:
        """All steps of a block where those of a column are."""
        for step in self.steps(UNROLLED_ACROSS):
            place = self.build.gep(first, [self.build.mul(step, self.given["a_stride"])])
            self.take([self.build.gep(place, [integer(i)]) for i in self.rows])

    def steps(self, unrolled: int) -> Iterator[Any]:
        """Yield the code for each step. Several at once: else finding places would take longer than the products."""
        build = self.build
        many = build.udiv(self.given["steps"], integer(unrolled))
        done = build.mul(many, integer(unrolled))
        with self.loop(many) as group:
            here = build.mul(group, integer(unrolled))
            for ahead in range(unrolled):
                yield build.add(here, integer(ahead))
        with self.loop(build.sub(self.given["steps"], done)) as step:
            yield build.add(done, step)

    def take(self, factors: list[Any]) -> None:
        """One step: a number of A for each row, and a row of B."""
        build = self.build
        b_row = build.load(self.b_row)
        bs = [self.load(b_row, integer(v * LANES)) for v in self.vectors]
        for i in self.rows:
            factor = self.broadcast(build.load(factors[i]))
            for v in self.vectors:
                build.store(self.fma(factor, bs[v], build.load(self.totals[i][v])), self.totals[i][v])
        build.store(build.gep(b_row, [self.given["b_step"]]), self.b_row)


_along, _across = _tile(across=False), _tile(across=True)


@outlined
def matmul(a, b, c, extent, accumulate):
    """C (+)= A·B. a: Rows; b, c: Panels; extent: Extent."""
    a_data, b_data, c_data = a.data, b.data, c.data
    at_once = max(L2_VALUES // max(extent.inner * extent.blocks, 1) // MOST_ROWS, 1) * MOST_ROWS
    for first in range(0, extent.rows, at_once):
        end = min(first + at_once, extent.rows)
        for panel in range(extent.panels):
            wide = not (extent.narrow and panel == extent.panels - 1)
            b_start, c_start = b.start + panel * b.panel, c.start + panel * c.panel
            i = first
            while i < end:
                size = _tile_rows(end - i)
                at = (
                    a.start + i * a.row, b_start, c_start + i * c.row, a.row, a.block, b.row, extent.inner * b.row,
                    c.row,
                )  # fmt: skip
                _along(a_data, b_data, c_data, at, (size, wide, extent.inner, extent.blocks), accumulate)
                i += size


@outlined
def matmul_transposed(a, b, c, extent, reduction, accumulate):
    """C (+)= Aᵀ·B, summed over the rows of a minibatch part by part.

    a: Columns; b, c: Panels. extent: `rows` columns of A; `inner` rows of the batch, of which some parts are summed;
    `blocks` time steps.
    """
    parts, scratch = reduction
    count, rows = parts.size - 1, extent.rows
    for panel in range(extent.panels):
        wide = not (extent.narrow and panel == extent.panels - 1)
        b_panel = Panels(b.data, b.start + panel * b.panel, b.row, 0)
        c_panel = Panels(c.data, c.start + panel * c.panel, c.row, 0)
        for pair in range(0, count, 2):
            first = pair == 0
            total = c_panel if first else Panels(scratch, rows * PANEL, PANEL, 0)
            _sum_part(a, b_panel, total, extent, (parts[pair], parts[pair + 1]), wide, accumulate and first)
            if pair + 1 < count:
                part = Panels(scratch, 0, PANEL, 0)
                _sum_part(a, b_panel, part, extent, (parts[pair + 1], parts[pair + 2]), wide, False)
                _add_panel(part, total, rows, wide)
            if not first:
                _add_panel(total, c_panel, rows, wide)


@outlined
def _sum_part(a, b, c, extent, part, wide, accumulate):
    """Sum one panel over one part of the batch. part: its first row, and the end."""
    a_data, b_data, c_data = a.data, b.data, c.data
    batch, blocks, rows = extent.inner, extent.blocks, extent.rows
    begin, end = part
    steps = end - begin
    pieces = max(-(-steps // L1_ROWS), 1)
    steps_at_once = max(-(-steps // pieces), 1)
    blocks_at_once = max(L1_ROWS // steps_at_once, 1) if pieces == 1 else 1
    for block in range(0, max(blocks, 1), blocks_at_once):  # without blocks or steps, C is zero
        for step in range(0, max(steps, 1), steps_at_once):
            at = block * batch + begin + step
            steps_now, blocks_now = min(steps_at_once, steps - step), min(blocks_at_once, blocks - block)
            i = 0
            while i < rows:
                size = _tile_rows(rows - i)
                where = (
                    a.start + at * a.row + i, b.start + at * b.row, c.start + i * c.row, a.row, batch * a.row, b.row,
                    batch * b.row, c.row,
                )  # fmt: skip
                _across(
                    a_data, b_data, c_data, where, (size, wide, steps_now, blocks_now),
                    accumulate or block > 0 or step > 0,
                )  # fmt: skip
                i += size


@outlined
def _add_panel(source, target, rows, wide):
    """Add one panel to another."""
    values, sums = source.data, target.data
    if wide and source.row == PANEL and target.row == PANEL:
        size = rows * PANEL
        _add(sums[target.start : target.start + size], values[source.start : source.start + size])
        return
    columns = PANEL if wide else LANES
    for i in range(rows):
        at, there = source.start + i * source.row, target.start + i * target.row
        _add(sums[there : there + columns], values[at : at + columns])


@outlined
def _add(target, source):
    """Add contiguous values, which LLVM vectorizes."""
    for i in range(target.size):
        target[i] += source[i]


@inlined
def _tile_rows(rows):
    """Return the rows of the largest tile that fits."""
    for size in SIZES:
        if rows >= size:
            return size
    return 1
