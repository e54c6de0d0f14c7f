from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.cores import one_core

if TYPE_CHECKING:
    from neglm_cli.lm.cuda.gpu import Gpu


@pytest.fixture(scope="module", autouse=True)
def on_one_core() -> Iterator[None]:
    """Pin tests to one core, before other fixtures start a simulator."""
    with one_core():
        yield


@pytest.fixture(scope="session")
def gpu() -> "Gpu":
    from tests.lm.cuda.executors import make_gpu  # after the simulator was enabled or not

    return make_gpu()
