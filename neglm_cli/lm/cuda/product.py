"""Products of matrices: C = A·B, or C += A·B, each thread with a square of C in its registers.

    inner        A (m, k) as it lies, B (k, n) as it lies
    outer        A lies transposed, (k, m): gradients of weights
    transposed   B lies transposed, (n, k): scores, gradients of inputs

A block makes a tile of C; parts of A and B, `depth` deep, are brought to shared memory and used by all its threads.
Several products of the same sizes are made at once: A, B and C of the next begin some rows further down.
"""

from typing import NamedTuple, Protocol

from numba import float32

from neglm_cli.lm.cuda.functions import ZERO
from neglm_cli.lm.cuda.gpu import MATRIX, WHOLE, Array, Gpu, Kernel, cuda, kernel


class Products(NamedTuple):
    """The three kernels for one size of tiles."""

    inner: Kernel
    outer: Kernel
    transposed: Kernel


def products(tile: int, square: int, depth: int, name: str = "product") -> Products:
    """Tiles of tile × tile, and square × square numbers of it in each thread."""

    def named(form: str) -> str:
        return f"{name}_{form}_{tile}"

    return Products(
        _product(named("inner"), tile, square, depth, False, False),
        _product(named("outer"), tile, square, depth, True, False),
        _product(named("transposed"), tile, square, depth, False, True),
    )


def _product(name: str, tile: int, square: int, depth: int, a_transposed: bool, b_transposed: bool) -> Kernel:
    side = tile // square
    threads = side * side
    pitch = tile + 1  # so that what is written down a column goes to different banks

    @kernel(*(MATRIX, WHOLE, WHOLE) * 3, *(WHOLE,) * 7, threads=threads, tile=(tile, tile), name=name)
    def product(
        a, a_row, a_column, b, b_row, b_column, c, c_row, c_column, m, n, k, a_next, b_next, c_next, add
    ):  # fmt: skip
        a_part = cuda.shared.array((depth, pitch), float32)
        b_part = cuda.shared.array((depth, pitch), float32)
        sums = cuda.local.array((square, square), float32)
        a_own = cuda.local.array(square, float32)
        b_own = cuda.local.array(square, float32)
        thread = cuda.threadIdx.x
        down, right = thread // side, thread % side
        top, left = cuda.blockIdx.y * tile, cuda.blockIdx.x * tile
        a_row += cuda.blockIdx.z * a_next
        b_row += cuda.blockIdx.z * b_next
        c_row += cuda.blockIdx.z * c_next
        for i in range(square):
            for j in range(square):
                sums[i, j] = ZERO
        for first in range(0, k, depth):
            for at in range(thread, tile * depth, threads):
                if a_transposed:
                    deep, across = at // tile, at % tile
                else:
                    deep, across = at % depth, at // depth
                if first + deep < k and top + across < m:
                    if a_transposed:
                        a_part[deep, across] = a[a_row + first + deep, a_column + top + across]
                    else:
                        a_part[deep, across] = a[a_row + top + across, a_column + first + deep]
                else:
                    a_part[deep, across] = ZERO
                if b_transposed:
                    deep, across = at % depth, at // depth
                else:
                    deep, across = at // tile, at % tile
                if first + deep < k and left + across < n:
                    if b_transposed:
                        b_part[deep, across] = b[b_row + left + across, b_column + first + deep]
                    else:
                        b_part[deep, across] = b[b_row + first + deep, b_column + left + across]
                else:
                    b_part[deep, across] = ZERO
            cuda.syncthreads()
            for deep in range(depth):
                for i in range(square):
                    a_own[i] = a_part[deep, down + i * side]
                    b_own[i] = b_part[deep, right + i * side]
                for i in range(square):
                    for j in range(square):
                        sums[i, j] += a_own[i] * b_own[j]
            cuda.syncthreads()
        for i in range(square):
            for j in range(square):
                row, column = top + down + i * side, left + right + j * side
                if row < m and column < n:
                    if add:
                        sums[i, j] += c[c_row + row, c_column + column]
                    c[c_row + row, c_column + column] = sums[i, j]

    return product


SMALL = products(64, 4, 16)
LARGE = products(128, 8, 8)


class Part(NamedTuple):
    """Of an array (rows, columns) on the GPU, what lies right of and below a place."""

    array: Array
    row: int = 0
    column: int = 0


class Multiplier(Protocol):
    def multiply(
        self, form: str, a: Part, b: Part, c: Part, m: int, n: int, k: int, add: bool = False, groups: int = 1,
        next_rows: tuple[int, int, int] = (0, 0, 0),
    ) -> None:  # fmt: skip
        """C = A·B, or C += A·B, in one of the three forms; of A, B and C of the next group, how many rows down."""
        ...


class Tiled:
    """By the kernels above: with large tiles, if there are enough of them for all processors of the GPU."""

    def __init__(self, gpu: Gpu, small: Products = SMALL, large: Products = LARGE) -> None:
        self._gpu = gpu
        self._small, self._large = small, large

    def multiply(
        self, form: str, a: Part, b: Part, c: Part, m: int, n: int, k: int, add: bool = False, groups: int = 1,
        next_rows: tuple[int, int, int] = (0, 0, 0),
    ) -> None:  # fmt: skip
        tiles = _tiles(self._large.inner.tile, m, n)
        chosen = self._large if tiles[0] * tiles[1] * groups >= self._gpu.processors else self._small
        kernel: Kernel = getattr(chosen, form)
        self._gpu.launch(kernel, (*_tiles(kernel.tile, m, n), groups), *a, *b, *c, m, n, k, *next_rows, int(add))


def _tiles(tile: tuple[int, int], m: int, n: int) -> tuple[int, int]:
    """Across and down."""
    return -(-n // tile[1]), -(-m // tile[0])
