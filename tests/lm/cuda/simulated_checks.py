"""Runs the checks of `neglm doctor` on Numba's simulator, at small sizes, and prints the results as JSON.

Run by test_checks.py in a process of its own, with NUMBA_ENABLE_CUDASIM=1.
"""

import json
from typing import Any

from neglm_cli.lm import setup
from neglm_cli.lm.checks import VARIANTS, Check, checked, compare, on_cpu
from neglm_cli.lm.cuda import autotune, checks, network
from neglm_cli.lm.cuda.gemm import Extent, Gemm, TiledGemm
from neglm_cli.lm.cuda.gpu import KERNELS, SimulatedGpu
from neglm_cli.lm.cuda.network import Kernels
from neglm_cli.lm.cuda.rates import rates
from neglm_cli.settings.train_lm import Settings

REAL = set(KERNELS)

from tests.lm.cuda.executors import SMALL_GEMMS  # noqa: E402
from tests.lm.cuda.turns import take_turns  # noqa: E402

for name in set(KERNELS) - REAL:  # variants for the simulator
    del KERNELS[name]

SETTINGS = Settings(k=2, hidden=3, layers=1, embedding=2, dropout=0.3, init_range=0.5, init_output=0.5, batch=1, bptt=2)
SIZES = checks.Sizes(
    SETTINGS, words=7, many_words=9, large_batch=2, minibatches=1, scored=2, products=(Extent(5, 9, 9),)
)  # fmt: skip


class AddsNothing:
    def __init__(self, good: Gemm) -> None:
        self._good = good

    def matmul(self, *arguments: Any) -> None:
        form, a, b, c, extent, _, *groups = arguments
        self._good.matmul(form, a, b, c, extent, False, *groups)


class TooLarge:
    """A product that is 1% too large, in one form."""

    def __init__(self, gpu: SimulatedGpu, good: Gemm) -> None:
        self._gpu, self._good = gpu, good

    def matmul(self, form: str, a: Any, b: Any, c: Any, *rest: Any, **options: Any) -> None:
        self._good.matmul(form, a, b, c, *rest, **options)
        if form == "tn":
            self._gpu.write(c.array, 1.01 * self._gpu.download(c.array))


def broken(gpu: SimulatedGpu, good: Gemm) -> list[Check]:
    """Return checks that should fail."""
    adds_nothing = AddsNothing(good)
    too_large = checks.maker(gpu, Kernels(TooLarge(gpu, good)))
    gpu.kernels_run.discard("gather_gradients")
    return [
        checked("a kernel that no check has run", lambda: checks._every_kernel(gpu, SIZES)),
        checked("a product that adds nothing", lambda: checks._grouped(gpu, adds_nothing)),
        checked("a product that is a little too large", lambda: compare(SIZES.task(), too_large, on_cpu)),
    ]


def main() -> None:
    take_turns()
    network.LARGE_BATCH = SIZES.large_batch
    setup.MAX_SCORES = 2 * 4  # a few words at a time for the softmax
    autotune.REPEATS = 1
    del VARIANTS["neglm, Adagrad"]
    gpu = SimulatedGpu()
    small = TiledGemm(gpu, SMALL_GEMMS, SMALL_GEMMS)
    found = list(checks.all_checks(gpu, SIZES, kernels=Kernels(small)))
    run = sorted(gpu.kernels_run)
    print(
        json.dumps(
            {
                "checks": [shown(check) for check in found],
                "kernels": sorted(KERNELS),
                "run": run,
                "rates": rates(gpu, SIZES.task(), lambda _: None, best=Extent(2, 2, 2)),
                "broken": [shown(check) for check in broken(gpu, small)],
            }
        )
    )


def shown(check: Check) -> dict[str, Any]:
    return {"name": check.name, "good": check.good, "errors": check.errors, "failure": check.failure}


if __name__ == "__main__":
    main()
