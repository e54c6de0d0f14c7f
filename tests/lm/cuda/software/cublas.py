"""Emulates the part of NVIDIA's cuBLAS that is used, in NumPy, by its documentation: C = α·op(A)·op(B) + β·C, with
column-major matrices whose columns start `ld` values apart. For tf32 and bf16, A and B are rounded to nearest."""

import ctypes
from collections.abc import Callable

import numpy as np

from neglm_cli.lm.cuda.blas import ANY_ALGORITHM, COMPUTE_TYPES, FLOAT32, NOT_TRANSPOSED, TRANSPOSED

MANTISSA_BITS = {"tf32": 10, "bf16": 7}
HANDLE = 7


def rounded(values: np.ndarray, bits: int) -> np.ndarray:
    """Round float32 values to so many bits of the mantissa, ties to even."""
    raw, dropped = np.ascontiguousarray(values, np.float32).view(np.uint32), 23 - bits
    half = np.uint32((1 << (dropped - 1)) - 1) + (raw >> np.uint32(dropped) & np.uint32(1))
    return ((raw + half) >> np.uint32(dropped) << np.uint32(dropped)).view(np.float32)


def floats_at(address: int, count: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_float * count).from_address(address))


def by_columns(address: int, rows: int, columns: int, ld: int) -> np.ndarray:
    """Return a view of a column-major matrix."""
    assert ld >= rows
    memory = floats_at(address, ld * (columns - 1) + rows)
    return np.lib.stride_tricks.as_strided(memory, (rows, columns), (4, 4 * ld))


class EmulatedCublas:
    """The part of nvmath.bindings.cublas that is used. `queue` takes a stream and the work."""

    def __init__(self, queue: Callable[[int, Callable[[], None]], None] = lambda stream, work: work()) -> None:
        self._queue = queue
        self.stream = self.workspace = 0
        self.destroyed = False

    def create(self) -> int:
        return HANDLE

    def destroy(self, handle: int) -> None:
        assert handle == HANDLE
        self.destroyed = True

    def set_stream(self, handle: int, stream: int) -> None:
        assert handle == HANDLE
        self.stream, self.workspace = stream, 0

    def set_workspace(self, handle: int, workspace: int, workspace_size: int) -> None:
        """As cuBLAS requires, the workspace is aligned."""
        assert handle == HANDLE
        assert workspace % 16 == 0
        self.workspace = workspace_size

    def sgemm_strided_batched(
        self, handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int, a: int, lda: int,
        stride_a: int, b: int, ldb: int, stride_b: int, beta: int, c: int, ldc: int, stride_c: int, batch_count: int,
        bits: int = 23,
    ) -> None:  # fmt: skip
        assert handle == HANDLE
        assert {transa, transb} <= {NOT_TRANSPOSED, TRANSPOSED} == {0, 1}
        one, old = (float(floats_at(address, 1)[0]) for address in (alpha, beta))

        def run() -> None:
            for i in range(batch_count):
                first, second, result = a + 4 * i * stride_a, b + 4 * i * stride_b, c + 4 * i * stride_c
                op_a = by_columns(first, k, m, lda).T if transa else by_columns(first, m, k, lda)
                op_b = by_columns(second, n, k, ldb).T if transb else by_columns(second, k, n, ldb)
                if bits < 23:
                    op_a, op_b = rounded(op_a, bits), rounded(op_b, bits)
                into = by_columns(result, m, n, ldc)
                into[...] = one * (op_a @ op_b) + (old * into if old else 0)

        self._queue(self.stream, run)

    def gemm_strided_batched_ex(
        self, handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int, a: int, atype: int, lda: int,
        stride_a: int, b: int, btype: int, ldb: int, stride_b: int, beta: int, c: int, ctype: int, ldc: int,
        stride_c: int, batch_count: int, compute_type: int, algo: int,
    ) -> None:  # fmt: skip
        assert (atype, btype, ctype, algo) == (FLOAT32, FLOAT32, FLOAT32, ANY_ALGORITHM) == (0, 0, 0, -1)
        names = {number: name for name, number in COMPUTE_TYPES.items()}
        self.sgemm_strided_batched(
            handle, transa, transb, m, n, k, alpha, a, lda, stride_a, b, ldb, stride_b, beta, c, ldc, stride_c,
            batch_count, MANTISSA_BITS[names[compute_type]],
        )  # fmt: skip
