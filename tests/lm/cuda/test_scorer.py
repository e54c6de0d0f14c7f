"""A GPU scores like the reference, with one launch for all time steps or a launch for each."""

from dataclasses import replace

import numpy as np
import pytest

from neglm_cli.lm.cuda.device import CudaDevice
from neglm_cli.lm.cuda.gemm import TiledGemm
from neglm_cli.lm.cuda.gpu import IS_SIMULATED, Gpu
from neglm_cli.lm.cuda.network import Kernels
from neglm_cli.lm.device import Device
from neglm_cli.settings.train_lm import Settings
from tests.lm.cuda.executors import SMALL_GEMMS, SMALL_STEPS
from tests.lm.cuda.late import LateGpu
from tests.lm.making import END_OF_LINE, counts, parameters
from tests.lm.test_scorer import CAPACITY, WORDS, ScorerTests, assert_close, random_words


def on_gpu(gpu: Gpu, settings: Settings) -> CudaDevice:
    gemm = TiledGemm(gpu, SMALL_GEMMS, SMALL_GEMMS)
    return CudaDevice(
        parameters(settings, WORDS), settings, counts(WORDS), END_OF_LINE, gpu, Kernels(gemm, SMALL_STEPS)
    )


class TestCuda(ScorerTests):
    base = replace(ScorerTests.base, hidden=3, embedding=2, layers=1)

    @pytest.fixture(autouse=True)
    def _gpu(self, gpu: Gpu) -> None:
        self.gpu = gpu

    def make(self, settings: Settings) -> Device:
        return on_gpu(self.gpu, settings)

    def test_several_rows_may_take_a_launch_per_time_step(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("neglm_cli.lm.cuda.network.LARGE_BATCH", CAPACITY)
        text, device = random_words(3, 4), self.make(self.base)
        whole = device.scorer(CAPACITY - 1).score(text[:, :-1], text[:, 1:]).log_probabilities
        self.gpu.kernels_run.discard(SMALL_STEPS.forward.name)
        stepwise = device.scorer(CAPACITY).score(text[:, :-1], text[:, 1:]).log_probabilities
        assert SMALL_STEPS.forward.name in self.gpu.kernels_run
        assert_close(stepwise, whole)

    def test_logits_in_several_blocks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        scorer = self.make(self.base).scorer(4)
        y = scorer.step(None, np.array([1, 2, 3])).y
        whole, log_z = scorer.logits(y), scorer.log_z(y)
        monkeypatch.setattr("neglm_cli.lm.setup.MAX_SCORES", 4 * (WORDS - 4))
        divided = self.make(self.base).scorer(4)
        assert_close(divided.logits(y), whole)
        assert_close(divided.log_z(y), log_z)


@pytest.mark.skipif(not IS_SIMULATED, reason="a GPU has a schedule of its own")
class TestLateCuda(ScorerTests):
    """Work and copies run as late as CUDA allows: a buffer that is reused too early shows."""

    base = TestCuda.base

    @pytest.fixture(autouse=True)
    def _patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch

    def make(self, settings: Settings) -> Device:
        return on_gpu(LateGpu(self.monkeypatch), settings)
