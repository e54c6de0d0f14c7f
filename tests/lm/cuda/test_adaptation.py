"""Dynamic evaluation on a GPU agrees with the reference."""

from dataclasses import replace

import numpy as np
import pytest

from neglm_cli.lm.cuda.gpu import Gpu
from tests.lm.cuda.test_device import TINY, on_gpu, slow_except
from tests.lm.making import model_of
from tests.lm.test_adaptation import VARIANTS, adapted, reference_device, settings_of


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("variant", slow_except(["neglm"], VARIANTS))
def test_matches_the_reference(gpu: Gpu, variant: str, normalized: bool) -> None:
    settings = replace(settings_of(**VARIANTS[variant]), hidden=TINY.hidden, embedding=TINY.embedding, k=TINY.k)
    made, expected = on_gpu(gpu, settings), reference_device(settings)
    found = adapted(made, settings, normalized=normalized)
    np.testing.assert_allclose(found, adapted(expected, settings, normalized=normalized), atol=5e-4)
    for mine, theirs in zip(
        model_of(made.parameters(), settings.layers).arrays(), expected.model.arrays(), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, atol=5e-5, rtol=2e-4)
    made.close()
