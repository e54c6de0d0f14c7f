"""The checks of `neglm doctor` on a GPU, at real sizes; skipped without one."""

from typing import TYPE_CHECKING

import pytest

from neglm_cli.lm.devices import UnusableGpuError, open_gpu

if TYPE_CHECKING:
    from neglm_cli.lm.cuda.gpu import Gpu

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def gpu() -> "Gpu":
    try:
        return open_gpu("auto")
    except UnusableGpuError as error:
        pytest.skip(str(error))


def test_every_kernel_at_real_sizes(gpu: "Gpu") -> None:
    from neglm_cli.lm.cuda.checks import Sizes, all_checks

    found = list(all_checks(gpu, Sizes()))
    assert [check for check in found if not check.good] == []


def test_rates(gpu: "Gpu") -> None:
    from neglm_cli.lm.checks import Task
    from neglm_cli.lm.cuda.rates import rates
    from neglm_cli.settings.train_lm import Settings

    found = rates(gpu, Task(Settings(), 10_000, 100), print)
    assert found["words_per_second"] > 0
    assert 0 < found["share"] < 1
    assert found["launches_per_minibatch"] > 10
