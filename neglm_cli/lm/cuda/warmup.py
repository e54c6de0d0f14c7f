"""Warm-up of a GPU: a tiny model compiles the kernels, and its results are checked."""

from dataclasses import replace

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.lm.checks import END_OF_LINE, LIMITS, Task, by_reference, compare, compare_scores
from neglm_cli.lm.cuda.checks import maker
from neglm_cli.lm.cuda.device import CudaDevice
from neglm_cli.lm.cuda.gpu import Gpu
from neglm_cli.lm.cuda.network import LARGE_BATCH, Kernels
from neglm_cli.lm.device import Device
from neglm_cli.settings.train_lm import Settings

TINY = Settings(
    k=3, hidden=5, layers=1, embedding=4, dropout=0.3, init_range=0.5, init_output=0.5, batch=2, bptt=3, clip=1.0,
    lr=0.05,
)  # fmt: skip
WORDS, SCORED = 20, 4
SLACK = 10  # times the tolerances of `neglm doctor`: broken kernels are off by more


def smoke_test(gpu: Gpu, settings: Settings, training: bool, kernels: Kernels, ranks: int = 1) -> None:
    """Raise unless the kernels that such a model needs work on this GPU."""
    batch = LARGE_BATCH if settings.batch // ranks >= LARGE_BATCH else TINY.batch  # uses other kernels
    chosen = {name: getattr(settings, name) for name in ("loss", "noise", "optimizer", "adam", "reset_at_eos")}
    task = Task(replace(TINY, batch=batch, **chosen), WORDS, minibatches=1, scored=SCORED)
    with np.errstate(all="ignore"):  # caused by wrong results
        if training:
            errors = compare(task, maker(gpu, kernels), by_reference)
        else:
            errors = compare_scores(task, lambda task: _scoring(gpu, kernels, task), by_reference)
    wrong = [what for what, error in errors.items() if not error <= SLACK * LIMITS[what]]
    if wrong:
        raise NeglmError(f"the GPU gives wrong results for a tiny model ({', '.join(wrong)}): see `neglm doctor`")


def _scoring(gpu: Gpu, kernels: Kernels, task: Task) -> Device:
    return CudaDevice(task.parameters(), task.settings, task.counts, END_OF_LINE, gpu, kernels)
