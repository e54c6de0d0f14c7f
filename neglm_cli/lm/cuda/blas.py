"""Products by cuBLAS, through NVIDIA's own binding, nvmath-python."""

from typing import Any

import numpy as np

from neglm_cli.lm.cuda.gpu import Gpu
from neglm_cli.lm.cuda.product import Part

NUMBER = 4  # bytes
AS_IT_LIES, TRANSPOSED = 0, 1  # cublasOperation_t


class Cublas:
    """cuBLAS reads down columns: to it, what lies here in rows is transposed. So it is asked for Cᵀ = Bᵀ·Aᵀ."""

    def __init__(self, gpu: Gpu, cublas: Any) -> None:
        self._gpu, self._cublas = gpu, cublas
        self._handle = cublas.create()
        cublas.set_stream(self._handle, gpu.stream_handle)
        self._one, self._zero = np.ones(1, np.float32), np.zeros(1, np.float32)

    def multiply(
        self, form: str, a: Part, b: Part, c: Part, m: int, n: int, k: int, add: bool = False, groups: int = 1,
        next_rows: tuple[int, int, int] = (0, 0, 0),
    ) -> None:  # fmt: skip
        """See `product.Multiplier`."""
        a_form = TRANSPOSED if form == "outer" else AS_IT_LIES
        b_form = TRANSPOSED if form == "transposed" else AS_IT_LIES
        old = self._one if add else self._zero
        strides = [part.array.shape[1] for part in (a, b, c)]
        steps = [rows * stride for rows, stride in zip(next_rows, strides, strict=True)]
        self._gpu.launches += 1
        self._cublas.sgemm_strided_batched(
            self._handle, b_form, a_form, n, m, k, self._one.ctypes.data, self._address(b), strides[1], steps[1],
            self._address(a), strides[0], steps[0], old.ctypes.data, self._address(c), strides[2], steps[2], groups,
        )  # fmt: skip

    def _address(self, part: Part) -> int:
        return self._gpu.address(part.array) + NUMBER * (part.row * part.array.shape[1] + part.column)


def cublas_of(gpu: Gpu) -> Cublas | None:
    """None where the binding is not installed; raises what it raises if it does not work."""
    try:
        from nvmath.bindings import cublas
    except ImportError:
        return None
    return Cublas(gpu, cublas)
