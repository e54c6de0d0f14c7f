"""The checks and benchmarks of `neglm doctor`, on the CPU and on a GPU."""

import re
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from neglm_cli.cli.console import console
from neglm_cli.cli.doctor_machine import OK, Found, size
from neglm_cli.errors import NeglmError
from neglm_cli.lm.checks import END_OF_LINE, Check, Task, cpu_checks, described
from neglm_cli.lm.devices import make_device
from neglm_cli.lm.speed import flop_per_word, seconds_per_word
from neglm_cli.lm.trainer import Trainer
from neglm_cli.settings.progress import Progress
from neglm_cli.settings.train_lm import Settings

if TYPE_CHECKING:
    from neglm_cli.lm.cuda.gpu import Gpu

CPU, GPU = "CPU", "GPU"
SMALL = Settings(
    k=7, hidden=13, layers=2, embedding=10, dropout=0.3, init_range=0.5, init_output=0.5, batch=6, bptt=5, clip=1.0,
    lr=0.5,
)  # fmt: skip
WORDS, FEW_WORDS = 10_000, 90
MINIBATCHES, MINIBATCHES_ON_GPU = 30, 200
SECONDS = 10.0
SIDE, ROUNDS = 1024, 5  # of matrix products by NumPy


@dataclass
class Examined:
    checks: list[tuple[str, Check]] = field(default_factory=list)  # each with its device
    rates: dict[str, dict[str, Any]] = field(default_factory=dict)  # by device
    model: str = "the paper's model (2×300, batch 20, 20 steps, k 100) with 10,000 words"


def examinable(gpu: "Gpu | None") -> "Gpu | None":
    """Return the GPU. Raise if it is Numba's simulator."""
    if gpu is not None:
        from neglm_cli.lm.cuda.gpu import IS_SIMULATED

        if IS_SIMULATED:
            raise NeglmError("Numba's CUDA simulator would take days: unset NUMBA_ENABLE_CUDASIM")
        gpu.optional = False  # otherwise the CPU would be checked in its place
    return gpu


def gpu_row(gpu: "Gpu") -> Found:
    free, total = gpu.memory()
    capability = "{}.{}".format(*gpu.capability)
    memory = f"{size(free)} free of {size(total)}"
    what = f"{gpu.name}, capability {capability}, {gpu.multiprocessors} multiprocessors, {memory}"
    return Found(GPU, OK, f"{what}, driver {driver_version()} for CUDA {gpu.driver}")


def driver_version() -> str:
    """Return the version of NVIDIA's driver, from Linux."""
    try:
        with open("/proc/driver/nvidia/version", encoding="ascii", errors="replace") as file:
            match = re.search(r"\d{3,}\.\d+(\.\d+)?", file.read())
    except OSError:
        match = None
    return match[0] if match else "of unknown version"


def examine(gpu: "Gpu | None", threads: int, quick: bool) -> Examined:
    from neglm_cli.lm.cpu.device import load_kernels

    examined = Examined()
    load_kernels(Settings(), training=True)
    console.note("checking the CPU …")
    small = Task(replace(SMALL, threads=threads), FEW_WORDS)
    examined.checks += [(CPU, check) for check in cpu_checks(small)]
    task = Task(Settings(threads=threads), WORDS, MINIBATCHES)
    if gpu is not None:
        _check_gpu(examined, gpu, threads)
    if not quick:
        console.note("measuring training speed …")
        examined.rates[CPU] = cpu_rates(task)
        if gpu is not None:
            _measure_gpu(examined, gpu, task._replace(minibatches=MINIBATCHES_ON_GPU))
    return examined


def _check_gpu(examined: Examined, gpu: "Gpu", threads: int) -> None:
    from neglm_cli.lm.cuda.checks import PAPER, Sizes, all_checks

    console.note("checking the GPU at the sizes of the paper's model, after compiling its kernels …")
    for check in all_checks(gpu, Sizes(replace(PAPER, threads=threads)), console.note):
        examined.checks.append((GPU, check))


def _measure_gpu(examined: Examined, gpu: "Gpu", task: Task) -> None:
    """Benchmark the GPU. An error is reported as a failed check."""
    from neglm_cli.lm.cuda.checks import Sizes, describe_plans
    from neglm_cli.lm.cuda.rates import rates

    try:
        examined.rates[GPU] = rates(gpu, task, console.note) | {"steps": describe_plans(gpu, Sizes())}
    except Exception as error:
        examined.checks.append((GPU, Check("speed", failure=described(error))))


def cpu_rates(task: Task) -> dict[str, Any]:
    device = make_device(
        task.parameters(), task.settings, task.counts, END_OF_LINE, None, training=True, note=console.note
    )  # fmt: skip
    try:
        trainer = Trainer(task.text(), device, task.settings, Progress())
        words = 1 / seconds_per_word(trainer, task.minibatches, SECONDS)
    finally:
        device.close()
    flops, best = words * flop_per_word(device.shape, task.settings), numpy_rate()
    return {
        "words_per_second": round(words),
        "training_flops": round(flops),
        "product_flops": {"NumPy": round(best)},
        "fastest_product": "NumPy",
        "share": flops / best,
    }


def numpy_rate() -> float:
    """Measure the best FLOP/s of NumPy's matrix product."""
    import numpy as np

    a, b = np.random.default_rng(1).random((2, SIDE, SIDE), np.float32)
    c = a @ b
    times = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        np.matmul(a, b, out=c)
        times.append(time.perf_counter() - begun)
    return float(2 * SIDE**3 / min(times))
