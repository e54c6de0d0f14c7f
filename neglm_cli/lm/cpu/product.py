"""Products of matrices, C = A·B or C += A·B, in float32: the bulk of the work of a language model.

Columns of B and C come in panels of PANEL. A tile, a few rows of one panel of C, stays in registers while A and B go
by: every step reads one row of the panel of B, and one number of each row of A. BLAS does this, too; but it copies B
into panels each time, has threads of its own, and is slow for the few rows that a step of an LSTM has.

Arrays are flat. Where a matrix lies is said by strides, counted in numbers, so that one product serves all layouts:

    B[k, j] is b[b_start + (j // PANEL)·b_panel + k·b_step + j % PANEL]
    C[i, j] is c[c_start + (j // PANEL)·c_panel + i·c_row + j % PANEL]

    multiply             A[i, k] is a[a_start + i·a_stride + (k // steps)·a_block + k % steps]
    multiply_transposed  A[i, k] is a[a_start + k·a_stride + i]
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
UNROLLED = 4  # steps
KEPT = 1 << 17  # numbers of A that stay in a core's second cache while panels of B go by
KEPT_STEPS = 100  # rows of a panel of B that stay in its first one

ARGUMENTS = (
    "rows", "wide", "a", "a_start", "a_stride", "a_block", "b", "b_start", "b_step", "c", "c_start", "c_row",
    "steps", "blocks", "accumulate",
)  # fmt: skip


def _tile(across: bool) -> Any:
    """An intrinsic: C (+)= A·B for one tile, over `blocks` blocks of `steps` steps. `rows` is one of SIZES, and the
    panel has two vectors if it is `wide`, else one. `across` if A is read transposed."""

    @intrinsic
    def tile(
        typingctx, rows, wide, a, a_start, a_stride, a_block, b, b_start, b_step, c, c_start, c_row, steps, blocks,
        accumulate,
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
        self.b_row = cgutils.alloca_once_value(builder, builder.gep(given["b"], [given["b_start"]]))

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
            if across:
                with self.loop(given["steps"]) as step:
                    place = build.gep(first, [build.mul(step, given["a_stride"])])
                    self.take([build.gep(place, [integer(i)]) for i in self.rows])
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
        """All steps where the numbers of a row of A are neighbours. Several at once: else finding the rows' places
        would take longer than the products."""
        build = self.build
        many = build.udiv(self.given["steps"], integer(UNROLLED))
        done = build.mul(many, integer(UNROLLED))
        with self.loop(many) as group:
            here = [build.gep(row, [build.mul(group, integer(UNROLLED))]) for row in rows]
            for ahead in range(UNROLLED):
                self.take([build.gep(place, [integer(ahead)]) for place in here])
        with self.loop(build.sub(self.given["steps"], done)) as step:
            self.take([build.gep(row, [build.add(done, step)]) for row in rows])

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
                    size, wide, a, a_start + i * a_stride, a_stride, a_block, b, b_first, b_step,
                    c, c_first + i * c_row, c_row, steps, blocks, accumulate,
                )  # fmt: skip
                i += size


@outlined
def multiply_transposed(
    a, a_start, a_stride, b, b_start, b_step, b_panel, c, c_start, c_row, c_panel,
    rows, steps, panels, narrow, accumulate,
):  # fmt: skip
    """The same with A transposed: `steps` is how many rows of it there are, `rows` how many of its columns."""
    chunks = max(-(-steps // KEPT_STEPS), 1)
    at_once = max(-(-steps // chunks), 1)
    for panel in range(panels):
        wide = not (narrow and panel == panels - 1)
        c_first = c_start + panel * c_panel
        for step in range(0, max(steps, 1), at_once):  # without steps, C is zero
            i = 0
            while i < rows:
                size = _size(rows - i)
                _across(
                    size, wide, a, a_start + step * a_stride + i, a_stride, 0,
                    b, b_start + panel * b_panel + step * b_step, b_step, c, c_first + i * c_row, c_row,
                    min(at_once, steps - step), 1, accumulate or step > 0,
                )  # fmt: skip
                i += size


@outlined
def _size(rows):
    """The largest tile for so many rows."""
    for size in SIZES:
        if rows >= size:
            return size
    return 1
