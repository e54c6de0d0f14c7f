from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from neglm_cli.lm.cuda.gpu import Gpu


@pytest.fixture(scope="session")
def gpu() -> "Gpu":
    from tests.lm.cuda.executors import make_gpu  # not before it is known whether it is to be a real one

    return make_gpu()
