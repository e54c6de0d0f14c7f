from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.cores import one_core

if TYPE_CHECKING:
    from neglm_cli.lm.cuda.gpu import Gpu


@pytest.fixture(scope="module", autouse=True)
def on_one_core() -> Iterator[None]:
    """Before all other fixtures, some of which start a simulator, too."""
    with one_core():
        yield


@pytest.fixture(scope="session")
def gpu() -> "Gpu":
    from tests.lm.cuda.executors import make_gpu  # not before it is known whether it is to be a real one

    return make_gpu()
