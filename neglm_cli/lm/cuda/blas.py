"""Matrix products with cuBLAS, through NVIDIA's binding nvmath-python."""

import weakref
from typing import Any

import numpy as np

from neglm_cli.lm.cuda.gemm import ONE_GROUP, Extent, Groups, MatrixView
from neglm_cli.lm.cuda.gpu import Gpu

FLOAT_BYTES = 4
NOT_TRANSPOSED, TRANSPOSED = 0, 1  # cublasOperation_t
FLOAT32 = 0  # cudaDataType_t
COMPUTE_TYPES = {"tf32": 77, "bf16": 75}  # cublasComputeType_t: float32 matrices, whose values are rounded when read
ANY_ALGORITHM = -1  # cublasGemmAlgo_t
WORKSPACE_BYTES = 32 << 20  # what NVIDIA recommends for the H100; for older GPUs, 4 MB


class Cublas:
    """cuBLAS, which is column-major and sees our row-major matrices transposed. So it computes Cᵀ = Bᵀ·Aᵀ."""

    def __init__(self, gpu: Gpu, cublas: Any, precision: str = "fp32") -> None:
        self._gpu, self._cublas, self._compute_type = gpu, cublas, COMPUTE_TYPES.get(precision)
        self._handle = cublas.create()
        weakref.finalize(self, cublas.destroy, self._handle).atexit = False
        cublas.set_stream(self._handle, gpu.stream_handle)
        # Without a workspace, cuBLAS would allocate one in each graph, and might choose other algorithms there. Setting
        # the stream resets it.
        self._workspace = gpu.zeros(WORKSPACE_BYTES // FLOAT_BYTES)
        cublas.set_workspace(self._handle, gpu.address(self._workspace), WORKSPACE_BYTES)
        self._one, self._zero = np.ones(1, np.float32), np.zeros(1, np.float32)

    def matmul(
        self, form: str, a: MatrixView, b: MatrixView, c: MatrixView, extent: Extent, accumulate: bool = False,
        groups: Groups = ONE_GROUP,
    ) -> None:  # fmt: skip
        """See `gemm.Gemm`."""
        m, n, k = extent
        count, *group_rows = groups
        a_form = TRANSPOSED if form == "tn" else NOT_TRANSPOSED
        b_form = TRANSPOSED if form == "nt" else NOT_TRANSPOSED
        beta = self._one if accumulate else self._zero
        strides = [view.array.shape[1] for view in (a, b, c)]
        steps = [rows * stride for rows, stride in zip(group_rows, strides, strict=True)]
        self._gpu.launches += 1
        with self._gpu.timed("cuBLAS"):
            if self._compute_type is None:
                self._cublas.sgemm_strided_batched(
                    self._handle, b_form, a_form, n, m, k, self._one.ctypes.data, self._address(b), strides[1],
                    steps[1], self._address(a), strides[0], steps[0], beta.ctypes.data, self._address(c), strides[2],
                    steps[2], count,
                )  # fmt: skip
            else:
                self._cublas.gemm_strided_batched_ex(
                    self._handle, b_form, a_form, n, m, k, self._one.ctypes.data,
                    self._address(b), FLOAT32, strides[1], steps[1], self._address(a), FLOAT32, strides[0], steps[0],
                    beta.ctypes.data, self._address(c), FLOAT32, strides[2], steps[2], count, self._compute_type,
                    ANY_ALGORITHM,
                )  # fmt: skip

    def _address(self, view: MatrixView) -> int:
        return self._gpu.address(view.array) + FLOAT_BYTES * (view.row * view.array.shape[1] + view.column)


def cublas_of(gpu: Gpu, precision: str = "fp32") -> Cublas | None:
    """Return None if the binding is not installed. Raise its errors if it does not work."""
    try:
        from nvmath.bindings import cublas
    except ImportError:
        return None
    return Cublas(gpu, cublas, precision)
