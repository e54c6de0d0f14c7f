"""The checks of a GPU before `--device` uses it."""

from dataclasses import replace
from typing import Any

import pytest

from neglm_cli.errors import NeglmError
from neglm_cli.lm.cuda import lstm
from neglm_cli.lm.cuda.gemm import Extent, MatrixView, TiledGemm
from neglm_cli.lm.cuda.gpu import Gpu
from neglm_cli.lm.cuda.network import Kernels
from neglm_cli.lm.cuda.probe import run_trial
from neglm_cli.lm.cuda.warmup import smoke_test
from neglm_cli.settings.train_lm import Settings
from tests.lm.cuda.executors import SMALL_GEMMS, SMALL_STEPS
from tests.lm.test_device import VARIANTS

SMALL = (SMALL_GEMMS, SMALL_GEMMS)


class Wrong(TiledGemm):
    """Computes C += A·B instead of C = A·B."""

    def matmul(
        self, form: str, a: MatrixView, b: MatrixView, c: MatrixView, extent: Extent, *_: Any, **options: Any
    ) -> None:
        super().matmul(form, a, b, c, extent, **options | {"accumulate": True})


def test_the_trial(gpu: Gpu) -> None:
    assert run_trial(gpu)


@pytest.mark.parametrize("variant", ["neglm", "softmax", "shared by a batch", "exact adam"])
def test_a_smoke_test_passes(gpu: Gpu, variant: str) -> None:
    smoke_test(gpu, replace(Settings(), **VARIANTS[variant]), True, Kernels(TiledGemm(gpu, *SMALL), SMALL_STEPS))


def test_a_smoke_test_uses_the_kernels_of_a_large_batch(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("network", "warmup"):
        monkeypatch.setattr(f"neglm_cli.lm.cuda.{module}.LARGE_BATCH", 2)
    gpu.kernels_run.clear()
    smoke_test(gpu, Settings(batch=2), True, Kernels(TiledGemm(gpu, *SMALL), SMALL_STEPS))
    assert SMALL_STEPS.backward.name in gpu.kernels_run
    assert lstm.backward.name not in gpu.kernels_run


@pytest.mark.parametrize("training", [True, False])
def test_a_smoke_test_detects_wrong_results(gpu: Gpu, training: bool) -> None:
    smoke_test(gpu, Settings(), training, Kernels(TiledGemm(gpu, *SMALL), SMALL_STEPS))
    with pytest.raises(NeglmError, match="the GPU gives wrong results for a tiny model .*scores"):
        smoke_test(gpu, Settings(), training, Kernels(Wrong(gpu, *SMALL), SMALL_STEPS))
