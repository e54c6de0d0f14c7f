"""The softmax, in blocks of words: normalizers, losses and gradients."""

import numpy as np
import pytest

from neglm_cli.lm import reference
from neglm_cli.lm.cuda import softmax
from neglm_cli.lm.cuda.gpu import Gpu
from neglm_cli.lm.cuda.softmax import NormalizerBuffers, WordBlock
from tests.lm.cuda.making import packed

SCALE = 0.25


@pytest.mark.parametrize("single_block", [False, True], ids=["block by block", "all at once"])
@pytest.mark.parametrize(("rows", "words", "at_once"), [(1, 1, 1), (3, 71, 33), (4, 9, 3), (2, 130, 64)])
def test_matches_the_reference(gpu: Gpu, rows: int, words: int, at_once: int, single_block: bool) -> None:
    """With scores of very different magnitudes, the highest not always in the first block."""
    at_once = words if single_block else at_once
    random = np.random.default_rng(rows * words)
    sizes = np.array([[30], [1], [0.1], [5]], np.float32)[:rows]
    scores = sizes * random.standard_normal((rows, words), np.float32)
    offsets = random.standard_normal(words).astype(np.float32)
    targets = random.integers(0, words, (rows, 1))
    targets[-1] = words - 1
    on_gpu = gpu.upload(packed(np.zeros_like(targets), targets))
    highest, target_scores, losses = (gpu.upload(np.full(rows, np.nan, np.float32)) for _ in range(3))
    sums = gpu.upload(np.full(rows, np.nan))
    normalizers = NormalizerBuffers(highest, sums, target_scores)
    shared = {"offsets": gpu.upload(offsets), "words": on_gpu, "normalizers": normalizers}

    blocks = []
    for first in range(0, words, at_once):
        count = min(at_once, words - first)
        block = gpu.upload(np.pad(scores[:, first : first + count], [(0, 0), (0, 2)], constant_values=1e30))
        gpu.launch(softmax.log_normalizers, rows, scores=block, block=WordBlock(first, count), **shared)
        np.testing.assert_array_equal(
            gpu.download(block)[:, :count], scores[:, first : first + count] + offsets[first : first + count]
        )
        blocks.append((first, count, block))
    every = (scores + offsets).astype(float)
    log_z = reference.log_sum_exp(every)
    np.testing.assert_allclose(gpu.download(highest) + np.log(gpu.download(sums)), log_z, rtol=1e-6, atol=1e-6)
    own = np.take_along_axis(every, targets, axis=1)[:, 0]
    np.testing.assert_allclose(gpu.download(target_scores), own, rtol=1e-6)

    expected = SCALE * (np.exp(every - log_z[:, None]) - np.eye(words)[targets[:, 0]])
    for first, count, block in blocks:
        if not single_block:  # recompute scores
            gpu.write(block, np.pad(scores[:, first : first + count], [(0, 0), (0, 2)], constant_values=1e30))
        gpu.launch(
            softmax.softmax_gradients, rows, scores=block, losses=losses, block=WordBlock(first, count),
            with_offsets=int(single_block), scale=SCALE, **shared,
        )  # fmt: skip
        found = gpu.download(block)
        np.testing.assert_allclose(found[:, :count], expected[:, first : first + count], rtol=1e-4, atol=1e-6)
        assert (found[:, count:] == np.float32(1e30)).all()
    np.testing.assert_allclose(gpu.download(losses), log_z - own, rtol=1e-5, atol=1e-5)
