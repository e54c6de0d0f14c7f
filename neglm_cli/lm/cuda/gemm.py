"""Matrix products, C = A·B or C += A·B, in float32. Each thread computes a square of C in registers.

    nn   A is (m, k), B is (k, n)
    tn   A is stored transposed, (k, m): gradients of weights
    nt   B is stored transposed, (n, k): scores, gradients of inputs

A block computes a tile of C; slices of A and B, `depth` deep, are staged in shared memory for all its threads.
One launch can compute several products of the same size, at row offsets in A, B and C.
"""

from typing import NamedTuple, Protocol

from numba import float32

from neglm_cli.lm.cuda.functions import ZERO, index
from neglm_cli.lm.cuda.gpu import Gpu, Int, Kernel, Matrix, cuda, kernel


class MatrixView(NamedTuple):
    """The part of an array (rows, columns) that starts at a row and a column."""

    array: Matrix
    row: Int = 0
    column: Int = 0


class Extent(NamedTuple):
    """The size of a product: C is (m, n), the inner dimension k."""

    m: Int
    n: Int
    k: Int


class Groups(NamedTuple):
    """Several products of the same size, and the strides between them, in rows of A, B and C."""

    number: Int = 1
    a_rows: Int = 0
    b_rows: Int = 0
    c_rows: Int = 0


ONE_GROUP = Groups()


class GemmKernels(NamedTuple):
    """The kernels of the three forms, for one tile size."""

    nn: Kernel
    tn: Kernel
    nt: Kernel


def gemm_kernels(tile: int, square: int, depth: int, name: str = "gemm") -> GemmKernels:
    """Make kernels with tiles of tile × tile, of which each thread computes square × square values."""

    def named(form: str) -> str:
        return f"{name}_{form}_{tile}"

    return GemmKernels(
        _gemm_kernel(named("nn"), tile, square, depth, False, False),
        _gemm_kernel(named("tn"), tile, square, depth, True, False),
        _gemm_kernel(named("nt"), tile, square, depth, False, True),
    )


def _gemm_kernel(name: str, tile: int, square: int, depth: int, a_transposed: bool, b_transposed: bool) -> Kernel:
    side = tile // square
    threads = side * side
    pitch = tile + 1  # avoids bank conflicts when writing columns

    @kernel(threads=threads, tile=(tile, tile), name=name)
    def gemm(
        a_view: MatrixView, b_view: MatrixView, c_view: MatrixView, extent: Extent, groups: Groups, accumulate: Int
    ) -> None:
        a_part = cuda.shared.array((depth, pitch), float32)
        b_part = cuda.shared.array((depth, pitch), float32)
        sums = cuda.local.array((square, square), float32)
        a_own = cuda.local.array(square, float32)
        b_own = cuda.local.array(square, float32)
        a, a_row, a_column = a_view
        b, b_row, b_column = b_view
        c, c_row, c_column = c_view
        m, n, k = extent
        thread = cuda.threadIdx.x
        down, right = thread // side, thread % side
        top, left = cuda.blockIdx.y * tile, cuda.blockIdx.x * tile
        a_row += cuda.blockIdx.z * groups.a_rows
        b_row += cuda.blockIdx.z * groups.b_rows
        c_row += cuda.blockIdx.z * groups.c_rows
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
                        a_part[index(deep), index(across)] = a[
                            index(a_row + first + deep), index(a_column + top + across)
                        ]
                    else:
                        a_part[index(deep), index(across)] = a[
                            index(a_row + top + across), index(a_column + first + deep)
                        ]
                else:
                    a_part[index(deep), index(across)] = ZERO
                if b_transposed:
                    deep, across = at % depth, at // depth
                else:
                    deep, across = at // tile, at % tile
                if first + deep < k and left + across < n:
                    if b_transposed:
                        b_part[index(deep), index(across)] = b[
                            index(b_row + left + across), index(b_column + first + deep)
                        ]
                    else:
                        b_part[index(deep), index(across)] = b[
                            index(b_row + first + deep), index(b_column + left + across)
                        ]
                else:
                    b_part[index(deep), index(across)] = ZERO
            cuda.syncthreads()
            for deep in range(depth):
                for i in range(square):
                    a_own[i] = a_part[index(deep), index(down + i * side)]
                    b_own[i] = b_part[index(deep), index(right + i * side)]
                for i in range(square):
                    for j in range(square):
                        sums[i, j] += a_own[i] * b_own[j]
            cuda.syncthreads()
        for i in range(square):
            for j in range(square):
                row, column = top + down + i * side, left + right + j * side
                if row < m and column < n:
                    if accumulate:
                        sums[i, j] += c[index(c_row + row), index(c_column + column)]
                    c[index(c_row + row), index(c_column + column)] = sums[i, j]

    return gemm


SMALL = gemm_kernels(64, 4, 16)
LARGE = gemm_kernels(128, 8, 8)


class Gemm(Protocol):
    def matmul(
        self, form: str, a: MatrixView, b: MatrixView, c: MatrixView, extent: Extent, accumulate: bool = False,
        groups: Groups = ONE_GROUP,
    ) -> None:  # fmt: skip
        """Compute C = A·B or, if `accumulate`, C += A·B, in one of the three forms."""
        ...


class TiledGemm:
    """The kernels above, with large tiles if there are enough for all multiprocessors."""

    def __init__(self, gpu: Gpu, small: GemmKernels = SMALL, large: GemmKernels = LARGE) -> None:
        self._gpu = gpu
        self._small, self._large = small, large

    def matmul(
        self, form: str, a: MatrixView, b: MatrixView, c: MatrixView, extent: Extent, accumulate: bool = False,
        groups: Groups = ONE_GROUP,
    ) -> None:  # fmt: skip
        tiles = _tiles(self._large.nn.tile, extent)
        chosen = self._large if tiles[0] * tiles[1] * groups.number >= self._gpu.multiprocessors else self._small
        kernel: Kernel = getattr(chosen, form)
        self._gpu.launch(
            kernel, (*_tiles(kernel.tile, extent), groups.number), a_view=a, b_view=b, c_view=c, extent=extent,
            groups=groups, accumulate=int(accumulate),
        )  # fmt: skip


def _tiles(tile: tuple[int, int], extent: Extent) -> tuple[int, int]:
    """Return the number of tiles across and down."""
    return -(-extent.n // tile[1]), -(-extent.m // tile[0])
