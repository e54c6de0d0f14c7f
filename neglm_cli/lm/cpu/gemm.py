"""Matrix products, C = A·B or C += A·B, in float32: most of the work of a language model.

Columns of B and C are stored in panels of PANEL. A tile, a few rows of one panel of C, stays in registers while A and B
stream through: each inner step loads one row of the panel of B and broadcasts one value of each row of A. BLAS does the
same, but it repacks B at every call, has its own threads, and is slow for the few rows of an LSTM time step.

Operands are views of flat arrays, so that one function serves every layout. Strides are in values:

    Rows    A[i, k] is data[start + i·row + (k // inner)·block + k % inner]
    Columns A[i, k] is data[start + k·row + i]: A is stored transposed
    Panels  B[k, j] and C[k, j] are data[start + (j // PANEL)·panel + k·row + j % PANEL]

`matmul_transposed` sums over the rows of a minibatch in the order defined by `batch_parts`.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir

from neglm_cli.kernels import cgutils, inlined, intrinsic, outlined, types
from neglm_cli.simd import LANES, Code, constant, integer, vector

PANEL = 2 * LANES  # columns: two SIMD vectors
SIZES = (10, 5, 2, 1) if LANES == 16 else (5, 2, 1)  # rows of a tile; the largest uses nearly all registers
MAX_ROWS = SIZES[0]
UNROLL, UNROLL_TRANSPOSED = 4, 5  # inner steps; a batch of 20 has parts of 5 rows
L2_VALUES = 1 << 17  # values of A that stay in a core's L2 cache while panels of B stream through
L1_ROWS = 100  # rows of a panel of B that stay in a core's L1 cache


class Rows(NamedTuple):
    """A row-major matrix, in blocks of columns."""

    data: np.ndarray  # float32, flat
    start: int
    row: int  # stride of rows
    block: int  # stride of blocks


class Columns(NamedTuple):
    """A column-major matrix: stored transposed."""

    data: np.ndarray  # float32, flat
    start: int
    row: int  # stride of rows in memory


class Panels(NamedTuple):
    """A matrix whose columns are stored in panels."""

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
    narrow: bool  # True if the last panel has a single vector of columns


class Reduction(NamedTuple):
    """The order of sums over the rows of a minibatch, and scratch for them."""

    parts: np.ndarray  # int64: see `batch_parts`
    scratch: np.ndarray  # float32, flat: 2·PANEL values for each row of the result


ARGUMENTS = (
    "rows", "wide", "a", "a_start", "a_stride", "a_block", "b", "b_start", "b_step", "b_block", "c", "c_start", "c_row",
    "steps", "blocks", "accumulate",
)  # fmt: skip


def _tile(transposed: bool) -> Any:
    """Make an intrinsic that computes one tile, C (+)= A·B. transposed: A is stored transposed.

    tile(a, b, c, at, size, accumulate). at: offsets of the tile in a, b and c, then the strides of rows and blocks of
    a, of rows and blocks of b, and of rows of c. size: rows, one of SIZES; True if the panel has two vectors; inner
    steps; blocks. Arrays are separate arguments, because every call would count references to arrays in a tuple.
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
            arguments = [
                rows, wide, a, a_start, a_row, a_block, b, b_start, b_row, b_block, c, c_start, c_row, inner, blocks,
                args[5],
            ]  # fmt: skip
            builder.call(_tile_function(builder.module, arguments, transposed), arguments)
            return context.get_dummy_value()

        return signature, codegen

    return tile


def _tile_function(module: Any, values: list[Any], transposed: bool) -> Any:
    """Return the module's only function for tiles. Inlining it would take long to compile."""
    name = f"neglm_tile{'_transposed' if transposed else ''}"
    kind = ir.FunctionType(ir.VoidType(), [value.type for value in values])
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
                        _Tile(builder, size, 2, arguments).emit(transposed)
                    with one:
                        _Tile(builder, size, 1, arguments).emit(transposed)
        builder.ret_void()
    return function


class _Tile(Code):
    """The code of one tile of a fixed size."""

    def __init__(self, builder: Any, rows: int, vectors: int, arguments: dict[str, Any]) -> None:
        super().__init__(builder)
        self.rows = range(rows)
        self.vectors = range(vectors)
        self.arguments = arguments
        self.totals = [[cgutils.alloca_once(builder, vector) for _ in self.vectors] for _ in self.rows]
        self.b_start = builder.gep(arguments["b"], [arguments["b_start"]])
        self.b_row = cgutils.alloca_once_value(builder, self.b_start)

    def emit(self, transposed: bool) -> None:
        build, arguments = self.build, self.arguments
        with build.if_else(arguments["accumulate"]) as (accumulate, overwrite):
            with accumulate:
                for total, index in self.accumulators():
                    build.store(self.load(arguments["c"], index), total)
            with overwrite:
                for total, _ in self.accumulators():
                    build.store(constant(0.0), total)
        start = build.gep(arguments["a"], [arguments["a_start"]])
        with self.loop(arguments["blocks"]) as block:
            first = build.gep(start, [build.mul(block, arguments["a_block"])])
            build.store(build.gep(self.b_start, [build.mul(block, arguments["b_block"])]), self.b_row)
            if transposed:
                self.multiply_columns(first)
            else:
                stride = arguments["a_stride"]
                self.multiply_rows([build.gep(first, [build.mul(stride, integer(i))]) for i in self.rows])
        for total, index in self.accumulators():
            self.store(build.load(total), arguments["c"], index)

    def accumulators(self) -> Iterator[tuple[Any, Any]]:
        """Yield the sums, each with its index in C."""
        for i in self.rows:
            row = self.build.add(self.arguments["c_start"], self.build.mul(self.arguments["c_row"], integer(i)))
            for v in self.vectors:
                yield self.totals[i][v], self.build.add(row, integer(v * LANES))

    def multiply_rows(self, rows: list[Any]) -> None:
        """Emit all steps of a block of A with contiguous rows."""
        for step in self.steps(UNROLL):
            self.multiply_add([self.build.gep(row, [step]) for row in rows])

    def multiply_columns(self, first: Any) -> None:
        """Emit all steps of a block of A with contiguous columns."""
        for step in self.steps(UNROLL_TRANSPOSED):
            column = self.build.gep(first, [self.build.mul(step, self.arguments["a_stride"])])
            self.multiply_add([self.build.gep(column, [integer(i)]) for i in self.rows])

    def steps(self, unroll: int) -> Iterator[Any]:
        """Emit a loop over steps, unrolled, because addressing would otherwise take longer than the products. Yield the
        index of each step."""
        build = self.build
        groups = build.udiv(self.arguments["steps"], integer(unroll))
        done = build.mul(groups, integer(unroll))
        with self.loop(groups) as group:
            first = build.mul(group, integer(unroll))
            for i in range(unroll):
                yield build.add(first, integer(i))
        with self.loop(build.sub(self.arguments["steps"], done)) as step:
            yield build.add(done, step)

    def multiply_add(self, factors: list[Any]) -> None:
        """Emit one step: one value of A for each row, times a row of B."""
        build = self.build
        b_row = build.load(self.b_row)
        bs = [self.load(b_row, integer(v * LANES)) for v in self.vectors]
        for i in self.rows:
            factor = self.broadcast(build.load(factors[i]))
            for v in self.vectors:
                build.store(self.fma(factor, bs[v], build.load(self.totals[i][v])), self.totals[i][v])
        build.store(build.gep(b_row, [self.arguments["b_step"]]), self.b_row)


_multiply_tile, _multiply_tile_transposed = _tile(transposed=False), _tile(transposed=True)


@outlined
def matmul(a, b, c, extent, accumulate):
    """Compute C (+)= A·B. a: Rows; b, c: Panels; extent: Extent."""
    a_data, b_data, c_data = a.data, b.data, c.data
    l2_rows = max(L2_VALUES // max(extent.inner * extent.blocks, 1) // MAX_ROWS, 1) * MAX_ROWS
    for first in range(0, extent.rows, l2_rows):
        end = min(first + l2_rows, extent.rows)
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
                _multiply_tile(a_data, b_data, c_data, at, (size, wide, extent.inner, extent.blocks), accumulate)
                i += size


@outlined
def matmul_transposed(a, b, c, extent, reduction, accumulate):
    """Compute C (+)= Aᵀ·B, summed over the rows of a minibatch part by part.

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
    """Sum one panel over one part of the batch. part: its first and end rows."""
    a_data, b_data, c_data = a.data, b.data, c.data
    batch, blocks, rows = extent.inner, extent.blocks, extent.rows
    begin, end = part
    steps = end - begin
    chunks = max(-(-steps // L1_ROWS), 1)
    chunk_steps = max(-(-steps // chunks), 1)
    chunk_blocks = max(L1_ROWS // chunk_steps, 1) if chunks == 1 else 1
    for block in range(0, max(blocks, 1), chunk_blocks):  # without blocks or steps, C is zero
        for step in range(0, max(steps, 1), chunk_steps):
            at = block * batch + begin + step
            steps_now, blocks_now = min(chunk_steps, steps - step), min(chunk_blocks, blocks - block)
            i = 0
            while i < rows:
                size = _tile_rows(rows - i)
                offsets = (
                    a.start + at * a.row + i, b.start + at * b.row, c.start + i * c.row, a.row, batch * a.row, b.row,
                    batch * b.row, c.row,
                )  # fmt: skip
                _multiply_tile_transposed(
                    a_data, b_data, c_data, offsets, (size, wide, steps_now, blocks_now),
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
        from_, to = source.start + i * source.row, target.start + i * target.row
        _add(sums[to : to + columns], values[from_ : from_ + columns])


@outlined
def _add(target, source):
    """Add contiguous values; LLVM vectorizes it."""
    for i in range(target.size):
        target[i] += source[i]


@inlined
def _tile_rows(rows):
    """Return the number of rows of the largest tile that fits."""
    for size in SIZES:
        if rows >= size:
            return size
    return 1
