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
BEST_SIDE, SLOW_SIDE = 4096, 64  # of matrix products on a GPU
FAST_NOTE = " at the sizes of the paper's model, after compiling its kernels"
SLOW_NOTE = " at small sizes, because it is slow"


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


def all_gpus_rows() -> list[Found]:
    """Return a row with all GPUs, if there are several."""
    from neglm_cli.lm.cuda import gpu, probe

    if gpu.gpus() < 2:
        return []
    free = probe.free_memory()
    memory = {number: f", {size(count)} free" for number, count in free.items()}
    described = [f"cuda:{number} {name}{memory.get(number, '')}" for number, name in enumerate(probe.names())]
    return [Found("all GPUs", OK, "; ".join(described))]


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
    fast = True if gpu is None else _check_gpu(examined, gpu, threads)
    if not quick:
        console.note("measuring training speed …")
        if not fast:
            task, examined.model = small, "a small model, because the GPU is slow"
        examined.rates[CPU] = cpu_rates(task)
        if gpu is not None:
            on_gpu = task._replace(minibatches=MINIBATCHES_ON_GPU) if fast else task
            _measure_gpu(examined, gpu, on_gpu, BEST_SIDE if fast else SLOW_SIDE)
            if fast and GPU in examined.rates:
                _add_estimates(examined.rates[GPU], gpu)
    return examined


def _check_gpu(examined: Examined, gpu: "Gpu", threads: int) -> bool:
    """Run the checks. Return False if the GPU is too slow for those of real sizes."""
    from neglm_cli.lm.cuda.checks import SMALL_SIZES, all_checks, sizes_for

    try:
        sizes = sizes_for(gpu, threads)
    except Exception as error:
        examined.checks.append((GPU, Check("the first product", failure=described(error))))
        sizes = SMALL_SIZES
    fast = sizes.words != SMALL_SIZES.words
    console.note(f"checking the GPU{FAST_NOTE if fast else SLOW_NOTE} …")
    for check in all_checks(gpu, sizes, console.note):
        examined.checks.append((GPU, check))
    return fast


def _measure_gpu(examined: Examined, gpu: "Gpu", task: Task, best: int) -> None:
    """Benchmark the GPU. best: side of the matrices whose product is timed. An error is reported as a failed check."""
    from neglm_cli.lm.cuda.checks import Sizes, describe_plans
    from neglm_cli.lm.cuda.gemm import Extent
    from neglm_cli.lm.cuda.rates import rates

    try:
        plans = describe_plans(gpu, Sizes(task.settings))
        examined.rates[GPU] = rates(gpu, task, console.note, Extent(best, best, best)) | {"steps": plans}
    except Exception as error:
        examined.checks.append((GPU, Check("speed", failure=described(error))))


def _add_estimates(rates: dict[str, Any], gpu: "Gpu") -> None:
    """Add the estimates of benchmarks/gpu/estimate.md for this GPU, if its clock is known."""
    from neglm_cli.lm.cuda.estimate import least_milliseconds

    try:
        estimated = least_milliseconds(gpu.multiprocessors, gpu.clock)
    except Exception:  # the driver may not know the attribute
        return
    for name, kernel in rates["kernels"].items():
        if name in estimated:
            kernel["least_milliseconds"] = estimated[name]


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
