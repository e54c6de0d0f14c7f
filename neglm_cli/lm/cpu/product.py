"""Products of matrices, C = A·B or C += A·B, in float32: the bulk of the work of a language model.

Columns of B and C come in panels of PANEL. A tile, a few rows of one panel of C, stays in registers while A and B go
by: every step reads one row of the panel of B, and one number of each row of A. BLAS does this, too; but it copies B
into panels each time, has threads of its own, and is slow for the few rows that a step of an LSTM has.

Arrays are flat. Where a matrix lies is said by strides, counted in numbers, so that one product serves all layouts:

    B[k, j] is b[b_start + (j // PANEL)·b_panel + k·b_step + j % PANEL]
    C[i, j] is c[c_start + (j // PANEL)·c_panel + i·c_row + j % PANEL]

    multiply             A[i, k] is a[a_start + i·a_stride + (k // steps)·a_block + k % steps]
    multiply_transposed  A[i, k] is a[a_start + k·a_stride + i]

The second one adds up rows of a minibatch, and does so in an order that `batch_parts` says.
"""

from collections.abc import Iterator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from neglm_cli.kernels import outlined
from neglm_cli.simd import LANES, Code, constant, integer, vector

PANEL = 2 * LANES  # columns: two machine vectors
SIZES = (10, 5, 2, 1) if LANES == 16 else (5, 2, 1)  # rows of a tile; the largest leaves few registers free
MOST_ROWS = SIZES[0]
UNROLLED, UNROLLED_ACROSS = 4, 5  # steps; a batch of 20 has parts of 5 rows
KEPT = 1 << 17  # numbers of A that stay in a core's second cache while panels of B go by
KEPT_STEPS = 100  # rows of a panel of B that stay in its first one

ARGUMENTS = (
    "rows", "wide", "a", "a_start", "a_stride", "a_block", "b", "b_start", "b_step", "b_block", "c", "c_start", "c_row",
    "steps", "blocks", "accumulate",
)  # fmt: skip


def _tile(across: bool) -> Any:
    """An intrinsic: C (+)= A·B for one tile, over `blocks` blocks of `steps` steps. `rows` is one of SIZES, and the
    panel has two vectors if it is `wide`, else one. `across` if A is read transposed."""

    @intrinsic
    def tile(
        typingctx, rows, wide, a, a_start, a_stride, a_block, b, b_start, b_step, b_block, c, c_start, c_row, steps,
        blocks, accumulate,
    ):  # fmt: skip
        kinds = {"a": a, "b": b, "c": c, "wide": types.boolean, "accumulate": types.boolean}
        signature = types.void(*(kinds.get(name, types.int64) for name in ARGUMENTS))

        def codegen(context, builder, signature, args):
            given = [
                context.make_array(kinds[name])(context, builder, value).data if name in "abc" else value
                for name, value in zip(ARGUMENTS, args, strict=True)
            ]
            builder.call(_tile_function(builder.module, given, across), given)
            return context.get_dummy_value()

        return signature, codegen

    return tile


def _tile_function(module: Any, given: list[Any], across: bool) -> Any:
    """A function for tiles, one for all that call it: inlined, it would take long to compile."""
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
        """The sums, each with its place in C."""
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
        """The code for each step. Several at once: else finding places would take longer than the products."""
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
def multiply(
    a, a_start, a_stride, a_block, b, b_start, b_step, b_panel, c, c_start, c_row, c_panel,
    rows, steps, blocks, panels, narrow, accumulate,
):  # fmt: skip
    """C (+)= A·B for `rows` rows and `panels` panels, the last of which has one vector of columns if it is `narrow`."""
    at_once = max(KEPT // max(steps * blocks, 1) // MOST_ROWS, 1) * MOST_ROWS
    for first in range(0, rows, at_once):
        end = min(first + at_once, rows)
        for panel in range(panels):
            wide = not (narrow and panel == panels - 1)
            b_first, c_first = b_start + panel * b_panel, c_start + panel * c_panel
            i = first
            while i < end:
                size = _size(end - i)
                _along(
                    size, wide, a, a_start + i * a_stride, a_stride, a_block, b, b_first, b_step, steps * b_step,
                    c, c_first + i * c_row, c_row, steps, blocks, accumulate,
                )  # fmt: skip
                i += size


@outlined
def multiply_transposed(
    a, a_start, a_stride, b, b_start, b_step, b_panel, c, c_start, c_row, c_panel,
    rows, parts, batch, blocks, panels, narrow, accumulate, room,
):  # fmt: skip
    """The same with A transposed: `rows` is how many columns of it there are. The rows of A are `blocks` steps of a
    batch, of which some parts are added up; see `batch_parts`. room: for 2·rows·PANEL numbers."""
    count = parts.size - 1
    for panel in range(panels):
        wide = not (narrow and panel == panels - 1)
        b_first, c_first = b_start + panel * b_panel, c_start + panel * c_panel
        for pair in range(0, count, 2):
            first = pair == 0
            total, start, row = (c, c_first, c_row) if first else (room, rows * PANEL, PANEL)
            _add_part(
                a, a_start, a_stride, b, b_first, b_step, parts, pair, batch, blocks, total, start, row, rows, wide,
                accumulate and first,
            )  # fmt: skip
            if pair + 1 < count:
                _add_part(
                    a, a_start, a_stride, b, b_first, b_step, parts, pair + 1, batch, blocks, room, 0, PANEL, rows,
                    wide, False,
                )  # fmt: skip
                _add_tiles(room, 0, total, start, row, rows, wide)
            if not first:
                _add_tiles(room, start, c, c_first, c_row, rows, wide)


@outlined
def _add_part(
    a, a_start, a_stride, b, b_start, b_step, parts, part, batch, blocks, c, c_start, c_row, rows, wide, accumulate
):  # fmt: skip
    """One panel's sum over one part of the batch."""
    begin = parts[part]
    steps = parts[part + 1] - begin
    pieces = max(-(-steps // KEPT_STEPS), 1)
    steps_at_once = max(-(-steps // pieces), 1)
    blocks_at_once = max(KEPT_STEPS // steps_at_once, 1) if pieces == 1 else 1
    for block in range(0, max(blocks, 1), blocks_at_once):  # without blocks or steps, C is zero
        for step in range(0, max(steps, 1), steps_at_once):
            at = block * batch + begin + step
            i = 0
            while i < rows:
                size = _size(rows - i)
                _across(
                    size, wide, a, a_start + at * a_stride + i, a_stride, batch * a_stride,
                    b, b_start + at * b_step, b_step, batch * b_step, c, c_start + i * c_row, c_row,
                    min(steps_at_once, steps - step), min(blocks_at_once, blocks - block),
                    accumulate or block > 0 or step > 0,
                )  # fmt: skip
                i += size


@outlined
def _add_tiles(room, room_start, c, c_start, c_row, rows, wide):
    if wide and c_row == PANEL:
        _add(c[c_start : c_start + rows * PANEL], room[room_start : room_start + rows * PANEL])
        return
    columns = PANEL if wide else LANES
    for i in range(rows):
        at, there = room_start + i * PANEL, c_start + i * c_row
        _add(c[there : there + columns], room[at : at + columns])


@outlined
def _add(target, source):
    for i in range(target.size):
        target[i] += source[i]


@outlined
def _size(rows):
    """The largest tile for so many rows."""
    for size in SIZES:
        if rows >= size:
            return size
    return 1
