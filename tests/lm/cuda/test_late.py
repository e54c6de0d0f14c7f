"""Inputs of queued work are not overwritten, however late a GPU runs it."""

from dataclasses import replace

import numpy as np
import pytest

from neglm_cli.lm.cuda.device import CudaDevice
from neglm_cli.lm.cuda.gemm import TiledGemm
from neglm_cli.lm.cuda.gpu import IS_SIMULATED
from neglm_cli.lm.cuda.network import Kernels
from tests.lm.cuda.executors import SMALL_GEMMS, SMALL_STEPS
from tests.lm.cuda.late import LateGpu
from tests.lm.making import END_OF_LINE, SMALL, ReferenceTraining, counts, minibatch, model_of, parameters

pytestmark = pytest.mark.skipif(not IS_SIMULATED, reason="a GPU has its own schedule")

TINY = replace(SMALL, batch=2, bptt=2, hidden=3, embedding=2, k=2, layers=1, threads=1)
WORDS = 12
MINIBATCHES = 6  # more than staging buffers


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> CudaDevice:
    gpu = LateGpu(monkeypatch)
    gemm = TiledGemm(gpu, SMALL_GEMMS, SMALL_GEMMS)
    return CudaDevice(parameters(TINY, WORDS), TINY, counts(WORDS), END_OF_LINE, gpu, Kernels(gemm, SMALL_STEPS))


def test_scoring(device: CudaDevice) -> None:
    ids = np.random.default_rng(0).integers(0, WORDS, (1, 17)).astype(np.int32)
    expected = ReferenceTraining(TINY, WORDS).scorer(16).score(ids[:, :16], ids[:, 1:]).log_probabilities
    scorer = device.scorer(4)
    for first in (0, 4, 8):
        scorer.advance(ids[:, first : first + 4])
    scores = scorer.score(ids[:, 12:16], ids[:, 13:])
    np.testing.assert_allclose(scores.log_probabilities, expected[:, 12:], atol=1e-5)


def test_training(device: CudaDevice) -> None:
    """Results are read after all minibatches were queued."""
    device.prepare_training()
    expected = ReferenceTraining(TINY, WORDS)
    batches = [minibatch(TINY, WORDS, number) for number in range(MINIBATCHES)]
    pending = [device.train(batch) for batch in batches]
    wanted = [expected.train(batch).result() for batch in batches]
    np.testing.assert_allclose([one.result().loss for one in pending], [one.loss for one in wanted], rtol=1e-5)
    np.testing.assert_allclose([one.result().norm for one in pending], [one.norm for one in wanted], rtol=1e-4)
    np.testing.assert_allclose(device.log_z(), expected.log_z(), atol=1e-4)
    found = model_of(device.parameters(), TINY).arrays()
    for mine, theirs in zip(found, expected.model.arrays(), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-5, rtol=1e-4)
