"""Stands in for NVIDIA's binding of cuBLAS on the software GPU: products are calls of the host, queued on its stream,
so that graphs capture them."""

import ctypes
from collections.abc import Callable
from typing import Any

from tests.lm.cuda.software.cublas import EmulatedCublas

HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_driver = ctypes.CDLL("libcuda.so.1")
_launch = ctypes.c_void_p()
_driver.cuGetProcAddress_v2(b"cuLaunchHostFunc", ctypes.byref(_launch), 13000, ctypes.c_uint64(0), None)
_launch_host_function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, HOST_FUNCTION, ctypes.c_void_p)(
    _launch.value or 0
)
_kept: list[Any] = []  # graphs may call them again


def _queue(stream: int, work: Callable[[], None]) -> None:
    _kept.append(HOST_FUNCTION(lambda _: work()))
    status = _launch_host_function(stream, _kept[-1], None)
    assert status == 0, f"cuLaunchHostFunc: {status}"


_cublas = EmulatedCublas(_queue)
create, destroy = _cublas.create, _cublas.destroy
set_stream, set_workspace = _cublas.set_stream, _cublas.set_workspace
sgemm_strided_batched, gemm_strided_batched_ex = _cublas.sgemm_strided_batched, _cublas.gemm_strided_batched_ex
