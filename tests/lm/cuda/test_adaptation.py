"""Dynamic evaluation on a GPU agrees with the reference."""

import numpy as np
import pytest

from neglm_cli.lm.adaptation import adaptation_settings
from neglm_cli.lm.checks import changed_settings
from neglm_cli.lm.cuda.gpu import Gpu
from tests.lm.cuda.test_device import on_gpu, slow_except
from tests.lm.making import TINY, model_of
from tests.lm.test_adaptation import VARIANTS, adapted, reference_device


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("variant", slow_except(["neglm"], VARIANTS))
def test_matches_the_reference(gpu: Gpu, variant: str, normalized: bool) -> None:
    settings = adaptation_settings(changed_settings(TINY, VARIANTS[variant]))
    made, expected = on_gpu(gpu, settings), reference_device(settings)
    found = adapted(made, settings, normalized=normalized)
    np.testing.assert_allclose(found, adapted(expected, settings, normalized=normalized), atol=5e-4)
    for mine, theirs in zip(model_of(made.parameters(), settings).arrays(), expected.model.arrays(), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=5e-5, rtol=2e-4)
    made.close()
