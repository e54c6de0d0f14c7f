"""The training speed of a GPU, the time of each kernel, and the peak rate of matrix products."""

from collections.abc import Callable
from typing import Any

from neglm_cli.lm.checks import END_OF_LINE, Task
from neglm_cli.lm.cuda.autotune import Trial
from neglm_cli.lm.cuda.checks import all_gemms, own_gemms
from neglm_cli.lm.cuda.gemm import Extent
from neglm_cli.lm.cuda.gpu import Gpu
from neglm_cli.lm.device import Device
from neglm_cli.lm.devices import make_device
from neglm_cli.lm.speed import flop_per_word, seconds_per_word
from neglm_cli.lm.trainer import Trainer
from neglm_cli.settings.progress import Progress

BEST = Extent(4096, 4096, 4096)
SECONDS = 20.0
TIMED = 10  # minibatches whose launches are measured one by one


def rates(gpu: Gpu, task: Task, note: Callable[[str], None], best: Extent = BEST) -> dict[str, Any]:
    """Measure words per second, FLOP/s, and launches per minibatch."""
    device = make_device(task.parameters(), task.settings, task.counts, END_OF_LINE, gpu, training=True, note=note)
    try:
        trainer = Trainer(task.text(), device, task.settings, Progress())
        before = gpu.launches
        words = 1 / seconds_per_word(trainer, task.minibatches, SECONDS)
        launches = (gpu.launches - before) / trainer.progress.step
        kernels = kernel_times(gpu, task, device)
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
        "kernels": kernels,
    }


def kernel_times(gpu: Gpu, task: Task, device: Device) -> dict[str, dict[str, float]]:
    """Measure each kernel in plain launches, without graphs: launches and milliseconds per minibatch, by name."""
    trainer = Trainer(task.text(), device, task.settings, Progress())
    with gpu.timing() as milliseconds:
        seconds_per_word(trainer, TIMED, SECONDS)
    steps = trainer.progress.step
    return {
        name: {"launches": round(len(times) / steps, 1), "milliseconds": sum(times) / steps}
        for name, times in sorted(milliseconds.items(), key=lambda item: -sum(item[1]))
    }


def product_rates(gpu: Gpu, extent: Extent) -> dict[str, float]:
    """Measure the FLOP/s of all matrix product implementations."""
    trial = Trial(gpu, extent)
    try:
        found = all_gemms(gpu)
    except Exception:  # reported by the checks
        found = own_gemms(gpu)
    measured = {}
    for name, gemm in found.items():
        trial.difference(gemm, gemm)  # compiles it
        measured[name] = trial.rate(gemm)
    return measured
