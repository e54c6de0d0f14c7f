"""How fast a GPU trains, beside the processor and beside the best product of matrices that it can make."""

from collections.abc import Callable
from typing import Any

from neglm_cli.lm.checks import END_OF_LINE, Task
from neglm_cli.lm.cuda.checks import multipliers, own_multipliers
from neglm_cli.lm.cuda.choice import Trial
from neglm_cli.lm.cuda.gpu import Gpu
from neglm_cli.lm.devices import make_device
from neglm_cli.lm.model import Progress
from neglm_cli.lm.speed import flop_per_word, seconds_per_word
from neglm_cli.lm.trainer import Trainer

BEST = (4096, 4096, 4096)
SECONDS = 20.0


def rates(gpu: Gpu, task: Task, note: Callable[[str], None], best: tuple[int, int, int] = BEST) -> dict[str, Any]:
    """Words per second, FLOP per second, and launches of a minibatch."""
    device = make_device(task.parameters(), task.settings, task.counts, END_OF_LINE, gpu, training=True, note=note)
    try:
        trainer = Trainer(task.text(), device, task.settings, Progress())
        before = gpu.launches
        words = 1 / seconds_per_word(trainer, task.minibatches, SECONDS)
        launches = (gpu.launches - before) / trainer.progress.step
    finally:
        device.close()
    products, flop = product_rates(gpu, best), flop_per_word(device.shape, task.settings)
    fastest = max(products, key=lambda name: products[name])
    return {
        "words_per_second": round(words),
        "training_flops": round(words * flop),
        "product_flops": {name: round(rate) for name, rate in products.items()},
        "fastest_product": fastest,
        "share": words * flop / products[fastest],
        "launches_per_minibatch": round(launches, 1),
    }


def product_rates(gpu: Gpu, size: tuple[int, int, int]) -> dict[str, float]:
    """FLOP/s of all who multiply here."""
    trial = Trial(gpu, *size)
    try:
        found = multipliers(gpu)
    except Exception:  # which the checks report
        found = own_multipliers(gpu)
    made = {}
    for name, multiplier in found.items():
        trial.difference(multiplier, multiplier)  # so that it is compiled
        made[name] = trial.rate(multiplier)
    return made
