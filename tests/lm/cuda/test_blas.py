"""cuBLAS is called correctly, and used only if its products are correct.

A substitute implements NVIDIA's documentation of cublasSgemmStridedBatched in NumPy:
C = α·op(A)·op(B) + β·C, with column-major matrices whose columns start `ld` values apart.
"""

import ctypes
import sys
from typing import Any

import numpy as np
import pytest

from neglm_cli.lm.cuda import autotune
from neglm_cli.lm.cuda.blas import NOT_TRANSPOSED, TRANSPOSED, Cublas, cublas_of
from neglm_cli.lm.cuda.gemm import Extent, MatrixView, TiledGemm
from neglm_cli.lm.cuda.gpu import IS_SIMULATED
from tests.lm.cuda.executors import TurnTakingGpu
from tests.lm.cuda.test_gemm import FORMS, SHAPES, Case


class HostGpu:
    """A GPU with NumPy arrays."""

    stream_handle = 42

    def __init__(self) -> None:
        self.launches = 0

    def upload(self, host: np.ndarray) -> np.ndarray:
        return host.copy()

    download = upload

    def address(self, array: np.ndarray) -> int:
        return array.ctypes.data


def floats_at(address: int, count: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_float * count).from_address(address))


def by_columns(address: int, rows: int, columns: int, ld: int) -> np.ndarray:
    """Return a view of a column-major matrix."""
    assert ld >= rows
    memory = floats_at(address, ld * (columns - 1) + rows)
    return np.lib.stride_tricks.as_strided(memory, (rows, columns), (4, 4 * ld))


class StandIn:
    """The part of nvmath.bindings.cublas that is used."""

    def __init__(self) -> None:
        self.stream = 0

    def create(self) -> int:
        return 7

    def set_stream(self, handle: int, stream: int) -> None:
        assert handle == 7
        self.stream = stream

    def sgemm_strided_batched(
        self, handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int, a: int, lda: int,
        stride_a: int, b: int, ldb: int, stride_b: int, beta: int, c: int, ldc: int, stride_c: int, batch_count: int,
    ) -> None:  # fmt: skip
        assert handle == 7
        assert {transa, transb} <= {NOT_TRANSPOSED, TRANSPOSED} == {0, 1}
        one, old = (float(floats_at(address, 1)[0]) for address in (alpha, beta))
        for i in range(batch_count):
            first, second, result = a + 4 * i * stride_a, b + 4 * i * stride_b, c + 4 * i * stride_c
            op_a = by_columns(first, k, m, lda).T if transa else by_columns(first, m, k, lda)
            op_b = by_columns(second, n, k, ldb).T if transb else by_columns(second, k, n, ldb)
            into = by_columns(result, m, n, ldc)
            into[...] = one * (op_a @ op_b) + (old * into if old else 0)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", FORMS)
def test_odd_shapes(form: str, shape: tuple[int, int, int]) -> None:
    gpu: Any = HostGpu()
    Case(form, *shape).check(gpu, Cublas(gpu, StandIn()), accumulate=False)
    assert gpu.launches == 1


@pytest.mark.parametrize("form", FORMS)
def test_groups_and_sums(form: str) -> None:
    gpu: Any = HostGpu()
    Case(form, 5, 9, 6, groups=3).check(gpu, Cublas(gpu, StandIn()), accumulate=True)


def test_it_uses_our_stream() -> None:
    gpu: Any = HostGpu()
    module = StandIn()
    Cublas(gpu, module)
    assert module.stream == gpu.stream_handle


class Exact(TiledGemm):
    """NumPy products of the simulator's arrays, plus `wrong`."""

    def __init__(self, gpu: Any, wrong: float = 0.0) -> None:
        super().__init__(gpu)
        self._wrong = wrong

    def matmul(
        self, form: str, a: MatrixView, b: MatrixView, c: MatrixView, extent: Extent, *_: Any, **__: Any
    ) -> None:
        first, second = (self._gpu.download(view.array) for view in (a, b))
        first, second = first.T if form == "tn" else first, second.T if form == "nt" else second
        self._gpu.write(c.array, first @ second + np.float32(self._wrong))


@pytest.mark.skipif(not IS_SIMULATED, reason="on a GPU it may be installed")
class TestChoice:
    """The choice between our kernels and a cuBLAS that works, fails, is wrong or slow."""

    def chosen(self, monkeypatch: pytest.MonkeyPatch, theirs: Any, faster: bool = True) -> tuple[Any, list[str]]:
        notes: list[str] = []
        gpu = TurnTakingGpu()
        monkeypatch.setattr(autotune, "cublas_of", theirs)
        monkeypatch.setattr(autotune.Trial, "seconds", lambda _, gemm: float(isinstance(gemm, Exact) != faster))
        return autotune.choose_gemm(gpu, Extent(5, 7, 3), notes.append), notes

    def test_not_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        chosen, notes = self.chosen(monkeypatch, lambda gpu: None)
        assert (type(chosen), notes) == (TiledGemm, [])

    def test_correct_and_faster(self, monkeypatch: pytest.MonkeyPatch) -> None:
        chosen, notes = self.chosen(monkeypatch, Exact)
        assert (type(chosen), notes) == (Exact, [])

    def test_correct_but_slower(self, monkeypatch: pytest.MonkeyPatch) -> None:
        chosen, notes = self.chosen(monkeypatch, Exact, faster=False)
        assert (type(chosen), notes) == (TiledGemm, [])

    @pytest.mark.parametrize("wrong", [0.01, np.nan, np.inf])
    def test_wrong(self, monkeypatch: pytest.MonkeyPatch, wrong: float) -> None:
        chosen, (note,) = self.chosen(monkeypatch, lambda gpu: Exact(gpu, wrong))
        assert type(chosen) is TiledGemm
        assert "products differ" in note

    def test_broken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(gpu: Any) -> None:
            raise OSError("libcublas.so.13: cannot open shared object file")

        chosen, (note,) = self.chosen(monkeypatch, broken)
        assert type(chosen) is TiledGemm
        assert note == "not using cuBLAS, which does not work: OSError: libcublas.so.13: cannot open shared object file"


def test_none_without_the_binding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvmath.bindings", None)
    gpu: Any = HostGpu()
    assert cublas_of(gpu) is None
