"""cuBLAS is called correctly, and used only if its products are correct. `software.cublas` emulates it."""

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pytest

from neglm_cli.lm.cuda import autotune
from neglm_cli.lm.cuda.blas import WORKSPACE_BYTES, Cublas, cublas_of
from neglm_cli.lm.cuda.gemm import Extent, MatrixView, TiledGemm
from neglm_cli.lm.cuda.gpu import IS_SIMULATED
from neglm_cli.lm.devices import PrecisionError
from tests.lm.cuda.executors import TurnTakingGpu
from tests.lm.cuda.software.cublas import EmulatedCublas, rounded
from tests.lm.cuda.test_gemm import FORMS, SHAPES, Case


class HostGpu:
    """A GPU with NumPy arrays."""

    stream_handle = 42

    def __init__(self) -> None:
        self.launches = 0

    def zeros(self, size: int) -> np.ndarray:
        return np.zeros(size, np.float32)

    def upload(self, host: np.ndarray) -> np.ndarray:
        return host.copy()

    download = upload

    def address(self, array: np.ndarray) -> int:
        return array.ctypes.data

    def timed(self, name: str) -> AbstractContextManager[None]:
        return nullcontext()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", FORMS)
def test_odd_shapes(form: str, shape: tuple[int, int, int]) -> None:
    gpu: Any = HostGpu()
    Case(form, *shape).check(gpu, Cublas(gpu, EmulatedCublas()), accumulate=False)
    assert gpu.launches == 1


@pytest.mark.parametrize("form", FORMS)
def test_groups_and_sums(form: str) -> None:
    gpu: Any = HostGpu()
    Case(form, 5, 9, 6, groups=3).check(gpu, Cublas(gpu, EmulatedCublas()), accumulate=True)


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
@pytest.mark.parametrize("form", FORMS)
def test_lower_precision_of_exact_values(form: str, precision: str) -> None:
    """Small integers are not rounded."""
    gpu: Any = HostGpu()
    Case(form, 5, 9, 6, groups=3).check(gpu, Cublas(gpu, EmulatedCublas(), precision), accumulate=True)


@pytest.mark.parametrize(("precision", "bits"), [("tf32", 10), ("bf16", 7)])
def test_inputs_of_products_are_rounded(precision: str, bits: int) -> None:
    """Rounded to nearest, they are off by 2^-(bits + 1) at most; sums are of float32."""
    gpu: Any = HostGpu()
    a, b = np.random.default_rng(3).standard_normal((2, 30, 30)).astype(np.float32)
    c = np.zeros((30, 30), np.float32)
    Cublas(gpu, EmulatedCublas(), precision).matmul(
        "nn", MatrixView(a), MatrixView(b), MatrixView(c), Extent(30, 30, 30)
    )
    assert np.abs(rounded(a, bits) / a - 1).max() <= 2.0 ** -(bits + 1)
    np.testing.assert_allclose(c, rounded(a, bits) @ rounded(b, bits), rtol=1e-5, atol=1e-5)
    error, bound = np.abs(c - a.astype(float) @ b), np.abs(a).astype(float) @ np.abs(b) * 2.0**-bits
    assert (error <= bound * 1.01).all()
    assert error.max() > 1e-4


def test_rounding_to_nearest_even() -> None:
    values = np.array([1, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -3.1415927], np.float32)
    assert rounded(values, 7).tolist() == [1, 1, 1 + 2**-6, 1 + 2**-7, -3.140625]


def test_it_uses_our_stream_and_workspace() -> None:
    """Setting the stream would reset the workspace; without one, products in graphs allocate memory."""
    gpu: Any = HostGpu()
    module = EmulatedCublas()
    made = Cublas(gpu, module)
    assert module.stream == gpu.stream_handle
    assert module.workspace == WORKSPACE_BYTES
    assert not module.destroyed
    del made
    assert module.destroyed


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

    def chosen(self, monkeypatch: pytest.MonkeyPatch, theirs: Any, seconds: float = 0.5) -> tuple[Any, list[str]]:
        """seconds: that cuBLAS takes; our kernels take one."""
        notes: list[str] = []
        gpu = TurnTakingGpu()
        monkeypatch.setattr(autotune, "cublas_of", theirs)
        monkeypatch.setattr(autotune.Trial, "seconds", lambda _, gemm: seconds if isinstance(gemm, Exact) else 1.0)
        return autotune.choose_gemm(gpu, Extent(5, 7, 3), notes.append), notes

    def test_not_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        chosen, notes = self.chosen(monkeypatch, lambda gpu: None)
        assert (type(chosen), notes) == (TiledGemm, [])

    @pytest.mark.parametrize("seconds", [0.5, 1.0, 1.1])
    def test_correct(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        """Between equals, the choice must not depend on noise: it changes the bytes of a model."""
        chosen, notes = self.chosen(monkeypatch, Exact, seconds)
        assert (type(chosen), notes) == (Exact, [])

    def test_correct_but_much_slower(self, monkeypatch: pytest.MonkeyPatch) -> None:
        chosen, notes = self.chosen(monkeypatch, Exact, seconds=3.0)
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


@pytest.mark.skipif(not IS_SIMULATED, reason="on a GPU it may be installed")
class TestPrecision:
    """There is no fallback: lower precision works, or an error says why not."""

    def gemm(self, monkeypatch: pytest.MonkeyPatch, theirs: Any, capability: tuple[int, int] = (8, 0)) -> Any:
        gpu = TurnTakingGpu()
        gpu.capability = capability
        monkeypatch.setattr(autotune, "cublas_of", theirs)
        return autotune.rounded_gemm(gpu, Extent(5, 7, 3), "tf32")

    def test_correct(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert type(self.gemm(monkeypatch, lambda gpu, _: Exact(gpu, 0.001))) is Exact

    def test_not_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(PrecisionError, match=r"^--precision tf32 needs cuBLAS: install it with pip install"):
            self.gemm(monkeypatch, lambda gpu, _: None)

    def test_broken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(gpu: Any, precision: str) -> None:
            raise OSError("libcublas.so.13: cannot open shared object file")

        with pytest.raises(PrecisionError, match="needs cuBLAS, which does not work: OSError: libcublas"):
            self.gemm(monkeypatch, broken)

    def test_wrong(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(PrecisionError, match="wrong products on this GPU"):
            self.gemm(monkeypatch, lambda gpu, _: Exact(gpu, 0.1))

    def test_an_older_gpu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(PrecisionError, match=r"needs a GPU of compute capability 8.0, but .* has 7.5"):
            self.gemm(monkeypatch, lambda gpu, _: Exact(gpu), (7, 5))


def test_none_without_the_binding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvmath.bindings", None)
    gpu: Any = HostGpu()
    assert cublas_of(gpu) is None
