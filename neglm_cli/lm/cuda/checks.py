"""Whether a GPU computes what it should: every kernel at real sizes, against NumPy and the processor's device."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from neglm_cli.lm.checks import (
    END_OF_LINE,
    VARIANTS,
    Check,
    Maker,
    Task,
    checked,
    compare,
    described,
    hand_over,
    on_processor,
)
from neglm_cli.lm.cuda import lstm, product
from neglm_cli.lm.cuda.blas import cublas_of
from neglm_cli.lm.cuda.choice import Trial, multiplier_for
from neglm_cli.lm.cuda.device import CudaDevice, describe
from neglm_cli.lm.cuda.gpu import KERNELS, Gpu
from neglm_cli.lm.cuda.network import LARGE_BATCH, Network
from neglm_cli.lm.cuda.product import Multiplier, Part, Tiled
from neglm_cli.lm.device import Device
from neglm_cli.settings.train_lm import Settings

GROUPS = 2
PAPER = Settings(init_output=0.1)  # an output table of zeros would hide what is wrong behind it


@dataclass(frozen=True)
class Sizes:
    """Those of the paper's model, unless a test on a simulator has less time."""

    settings: Settings = PAPER
    words: int = 10_000
    many_words: int = 60_000  # so many that softmax goes through them a block at a time
    large_batch: int = LARGE_BATCH + 16  # rows for which each step is a launch
    minibatches: int = 3
    scored: int = 24
    products: tuple[tuple[int, int, int], ...] = ((400, 1200, 301), (20_000, 2048, 513))

    def task(self, **changes: object) -> Task:
        return Task(replace(self.settings, **changes), self.words, self.minibatches, self.scored)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Means:
    """What a GPU trains with. A simulator has others, with fewer threads."""

    multiplier: Multiplier
    steps: lstm.Steps = lstm.STEPS


class ByNumpy:
    """Products by NumPy, of arrays that are on a GPU."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu

    def multiply(
        self, form: str, a: Part, b: Part, c: Part, m: int, n: int, k: int, add: bool = False, groups: int = 1,
        next_rows: tuple[int, int, int] = (0, 0, 0),
    ) -> None:  # fmt: skip
        """See `product.Multiplier`."""
        left, right, result = (self._gpu.download(part.array) for part in (a, b, c))
        sizes = ((k, m) if form == "outer" else (m, k)), ((n, k) if form == "transposed" else (k, n)), (m, n)
        for group in range(groups):
            x, y, z = (
                array[part.row + group * down :, part.column :][: size[0], : size[1]]
                for array, part, down, size in zip((left, right, result), (a, b, c), next_rows, sizes, strict=True)
            )
            made = (x.T if form == "outer" else x) @ (y.T if form == "transposed" else y)
            z[:] = z + made if add else made
        self._gpu.write(c.array, result)


def all_checks(
    gpu: Gpu, sizes: Sizes, note: Callable[[str], None] = lambda _: None, means: Means | None = None
) -> Iterator[Check]:
    yield from product_checks(gpu, sizes)
    yield from training_checks(gpu, sizes, means or Means(Tiled(gpu)))
    yield from step_checks(gpu, sizes, means, note)
    yield from state_checks(gpu, sizes, means or Means(Tiled(gpu)))
    yield checked("every kernel has been run", partial(_every_kernel, gpu, sizes))


def product_checks(gpu: Gpu, sizes: Sizes) -> Iterator[Check]:
    """In all three forms, with tiles of both sizes, and with cuBLAS."""
    try:
        found = multipliers(gpu)
    except Exception as error:  # whatever a broken installation raises
        yield Check("cuBLAS", failure=described(error))
        found = own_multipliers(gpu)
    for name, multiplier in found.items():
        for size in sizes.products:
            shown = "×".join(map(str, size))
            yield checked(f"products {shown}, {name}", partial(_products, gpu, multiplier, size))
        yield checked(f"products in groups, and added, {name}", partial(_grouped, gpu, multiplier))


def multipliers(gpu: Gpu) -> dict[str, Multiplier]:
    """All there are; raises what cuBLAS raises if it is there and does not work."""
    theirs = cublas_of(gpu)
    return own_multipliers(gpu) | ({} if theirs is None else {"cuBLAS": theirs})


def own_multipliers(gpu: Gpu) -> dict[str, Multiplier]:
    return {f"tiles of {tiles.inner.tile[0]}": Tiled(gpu, tiles, tiles) for tiles in (product.SMALL, product.LARGE)}


def _products(gpu: Gpu, multiplier: Multiplier, size: tuple[int, int, int]) -> dict[str, float]:
    return {"product": Trial(gpu, *size).difference(ByNumpy(gpu), multiplier)}


def _grouped(gpu: Gpu, multiplier: Multiplier) -> dict[str, float]:
    m, n, k = 10, 21, 7
    random = np.random.default_rng(1)
    a, b = (gpu.upload(random.standard_normal((GROUPS * k + 2, width), np.float32)) for width in (m + 3, n + 1))
    results = []
    for each in (multiplier, ByNumpy(gpu)):
        c = gpu.zeros((GROUPS * m + 1, n + 2))
        for add in (False, True):
            each.multiply("outer", Part(a, 2, 3), Part(b, 1, 1), Part(c, 1, 2), m, n, k, add, GROUPS, (k, k, m))
        results.append(gpu.download(c))
    found, expected = results
    return {"product": float(np.abs(found - expected).max() / np.abs(expected).max())}


def training_checks(gpu: Gpu, sizes: Sizes, means: Means) -> Iterator[Check]:
    """Minibatches in which one launch makes all steps, if the GPU has room for that."""
    there = maker(gpu, means)
    for name, changes in VARIANTS.items():
        yield checked(name, partial(compare, sizes.task(**changes), there, on_processor))
    many = sizes.task(loss="softmax")._replace(words=sizes.many_words, minibatches=1)
    yield checked("softmax, a block of words at a time", partial(compare, many, there, on_processor))


def step_checks(gpu: Gpu, sizes: Sizes, means: Means | None, note: Callable[[str], None]) -> Iterator[Check]:
    """Minibatches in which each step is a launch, and products are made by whoever is chosen on this GPU."""
    units = sizes.settings.hidden
    if means is None:
        rows = sizes.large_batch * sizes.settings.bptt
        means = Means(multiplier_for(gpu, rows, 4 * units, units + 1, note))
    there = maker(gpu, means)
    for name, changes in VARIANTS.items():
        task = sizes.task(batch=sizes.large_batch, **changes)
        yield checked(f"{name}, {sizes.large_batch} rows", partial(compare, task, there, on_processor))


def state_checks(gpu: Gpu, sizes: Sizes, means: Means) -> Iterator[Check]:
    task, there = sizes.task(optimizer="adam", adam="exact", lr=0.01), maker(gpu, means)
    yield checked("a training that goes on on the GPU", partial(hand_over, task, on_processor, there))
    yield checked("a training that goes on on the processor", partial(hand_over, task, there, on_processor))


def maker(gpu: Gpu, means: Means) -> Maker:
    def make(task: Task) -> Device:
        device = CudaDevice(
            task.parameters(), task.settings, task.counts, END_OF_LINE, gpu, means.multiplier, means.steps
        )  # fmt: skip
        device.prepare_training()
        return device

    return make


def _every_kernel(gpu: Gpu, sizes: Sizes) -> dict[str, float]:
    """Raises an error that names those which have not."""
    plans = plans_of(gpu, sizes)
    needless = {name for name, plan in plans.items() if plan is None}
    left = {name for name in KERNELS if name not in gpu.kernels_run | needless}
    if left:
        raise RuntimeError(f"no check has run {', '.join(sorted(left))}")
    return {}


def plans_of(gpu: Gpu, sizes: Sizes) -> dict[str, object]:
    """Of the kernels that make all steps in one launch: how, or None if this GPU has no room for them."""
    task = sizes.task()
    network = Network(gpu, Tiled(gpu), task.parameters().shape, [], task.settings.batch)
    return {lstm.forward.name: network.forward_plan, lstm.backward.name: network.backward_plan}


def how_steps_are_made(gpu: Gpu, sizes: Sizes) -> str:
    return "; ".join(f"{name}: {describe(plan)}" for name, plan in plans_of(gpu, sizes).items())
