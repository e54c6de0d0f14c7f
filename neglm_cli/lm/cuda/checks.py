"""Checks of a GPU: every kernel at realistic sizes, against NumPy and the CPU device."""

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
    changed_settings,
    checked,
    compare,
    compare_adapted,
    compare_resumed,
    described,
    on_cpu,
)
from neglm_cli.lm.cuda import gemm as gemms
from neglm_cli.lm.cuda import lstm
from neglm_cli.lm.cuda.autotune import TENSOR_CORES, Trial, choose_gemm
from neglm_cli.lm.cuda.blas import COMPUTE_TYPES, cublas_of
from neglm_cli.lm.cuda.device import CudaDevice, describe
from neglm_cli.lm.cuda.gemm import ONE_GROUP, Extent, Gemm, Groups, MatrixView, TiledGemm
from neglm_cli.lm.cuda.gpu import KERNELS, Gpu
from neglm_cli.lm.cuda.network import LARGE_BATCH, Kernels, Network, PersistentPlan
from neglm_cli.lm.cuda.occurrences import sort_keys
from neglm_cli.lm.device import Device
from neglm_cli.lm.setup import MAX_SCORES
from neglm_cli.settings.train_lm import Settings

GROUPS = 2
WITH_STEP_PRODUCTS = (
    "nce, noise words shared by a minibatch",  # resets states
    "neglm, tied, with all kinds of dropout",
)
PAPER = Settings(init_output=0.1)  # an output table of zeros would hide errors in the layers


@dataclass(frozen=True)
class Sizes:
    """Sizes of the checks: of the paper's model, or smaller ones for a simulator."""

    settings: Settings = PAPER
    words: int = 10_000
    many_words: int = 60_000  # enough for the softmax to need several blocks of words
    large_batch: int = LARGE_BATCH + 16  # rows; large enough for one launch per time step
    minibatches: int = 3
    scored: int = 24
    products: tuple[Extent, ...] = (Extent(400, 1200, 301), Extent(20_000, 2048, 513))

    def task(self, **changes: object) -> Task:
        return Task(changed_settings(self.settings, changes), self.words, self.minibatches, self.scored)


SLOW = 20e9  # FLOP/s of products; at less, checks at the sizes of the paper's model take hours
PROBE = Extent(256, 256, 256)
SMALL = Settings(k=7, hidden=13, layers=2, embedding=10, dropout=0.3, init_range=0.5, init_output=0.5, batch=6, bptt=5)
SMALL_SIZES = Sizes(
    SMALL, words=90, many_words=MAX_SCORES // (SMALL.batch * SMALL.bptt) + 1, minibatches=1,
    products=(Extent(40, 70, 33), Extent(130, 140, 17)),
)  # fmt: skip


def sizes_for(gpu: Gpu, threads: int) -> Sizes:
    """Return small sizes for a GPU that is slow, because it is software."""
    trial, gemm = Trial(gpu, PROBE), TiledGemm(gpu)
    trial.difference(gemm, gemm)  # compiles it
    sizes = SMALL_SIZES if trial.rate(gemm) < SLOW else Sizes()
    return replace(sizes, settings=replace(sizes.settings, threads=threads))


class NumpyGemm:
    """NumPy products of arrays on a GPU."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu

    def matmul(
        self, form: str, a: MatrixView, b: MatrixView, c: MatrixView, extent: Extent, accumulate: bool = False,
        groups: Groups = ONE_GROUP,
    ) -> None:  # fmt: skip
        """See `gemm.Gemm`."""
        (m, n, k), (count, *group_rows) = extent, groups
        left, right, result = (self._gpu.download(view.array) for view in (a, b, c))
        sizes = ((k, m) if form == "tn" else (m, k)), ((n, k) if form == "nt" else (k, n)), (m, n)
        for group in range(count):
            x, y, z = (
                array[view.row + group * down :, view.column :][: size[0], : size[1]]
                for array, view, down, size in zip((left, right, result), (a, b, c), group_rows, sizes, strict=True)
            )
            product = (x.T if form == "tn" else x) @ (y.T if form == "nt" else y)
            z[:] = z + product if accumulate else product
        self._gpu.write(c.array, result)


def all_checks(
    gpu: Gpu, sizes: Sizes, note: Callable[[str], None] = lambda _: None, kernels: Kernels | None = None
) -> Iterator[Check]:
    yield from product_checks(gpu, sizes)
    yield checked("sorted occurrences", partial(sorting_errors, gpu))
    yield from training_checks(gpu, sizes, kernels or Kernels(TiledGemm(gpu)))
    yield from step_checks(gpu, sizes, kernels, note)
    yield from state_checks(gpu, sizes, kernels or Kernels(TiledGemm(gpu)))
    yield checked("every kernel was run", partial(_every_kernel, gpu, sizes))


def product_checks(gpu: Gpu, sizes: Sizes) -> Iterator[Check]:
    """Check products in all three forms, with both tile sizes, and with cuBLAS."""
    try:
        found = all_gemms(gpu)
    except Exception as error:  # anything a broken installation may raise
        yield Check("cuBLAS", failure=described(error))
        found = own_gemms(gpu)
    for name, gemm in found.items():
        for size in sizes.products:
            shown = "×".join(map(str, size))
            yield checked(f"products {shown}, {name}", partial(_products, gpu, gemm, size))
        yield checked(f"grouped and accumulated products, {name}", partial(_grouped, gpu, gemm))
    if "cuBLAS" in found and gpu.capability >= TENSOR_CORES:
        for precision in COMPUTE_TYPES:
            yield checked(f"products in {precision}, cuBLAS", partial(_rounded_products, gpu, sizes, precision))


def all_gemms(gpu: Gpu) -> dict[str, Gemm]:
    """Return our kernels, and cuBLAS if it is installed. Raise its errors if it does not work."""
    cublas = cublas_of(gpu)
    return own_gemms(gpu) | ({} if cublas is None else {"cuBLAS": cublas})


def own_gemms(gpu: Gpu) -> dict[str, Gemm]:
    return {f"tiles of {tiles.nn.tile[0]}": TiledGemm(gpu, tiles, tiles) for tiles in (gemms.SMALL, gemms.LARGE)}


def _products(gpu: Gpu, gemm: Gemm, extent: Extent) -> dict[str, float]:
    return {"product": Trial(gpu, extent).difference(NumpyGemm(gpu), gemm)}


def _rounded_products(gpu: Gpu, sizes: Sizes, precision: str) -> dict[str, float]:
    """Return the errors of products in the lower precision of `train-lm --precision`."""
    gemm = cublas_of(gpu, precision)
    assert gemm is not None
    errors = [Trial(gpu, extent).difference(NumpyGemm(gpu), gemm) for extent in sizes.products]
    return {f"product in {precision}": float(np.max(errors))}


def _grouped(gpu: Gpu, gemm: Gemm) -> dict[str, float]:
    m, n, k = extent = Extent(10, 21, 7)
    random = np.random.default_rng(1)
    a, b = (gpu.upload(random.standard_normal((GROUPS * k + 2, width), np.float32)) for width in (m + 3, n + 1))
    results = []
    for each in (gemm, NumpyGemm(gpu)):
        c = gpu.zeros((GROUPS * m + 1, n + 2))
        for accumulate in (False, True):
            views = MatrixView(a, 2, 3), MatrixView(b, 1, 1), MatrixView(c, 1, 2)
            each.matmul("tn", *views, extent, accumulate, Groups(GROUPS, k, k, m))
        results.append(gpu.download(c))
    found, expected = results
    return {"product": float(np.abs(found - expected).max() / np.abs(expected).max())}


def sorting_errors(gpu: Gpu) -> dict[str, float]:
    """Return the share of keys that are not where they belong, after two passes of merging."""
    keys = np.random.default_rng(1).permutation(1000)
    found = gpu.download(sort_keys(gpu, gpu.upload(keys), gpu.zeros(keys.size, np.int64), tile=16))
    return {"order": float(np.mean(found != np.sort(keys)))}


def training_checks(gpu: Gpu, sizes: Sizes, kernels: Kernels) -> Iterator[Check]:
    """Check minibatches with one launch for all time steps, if all its blocks fit on the GPU at once."""
    on_gpu = maker(gpu, kernels)
    for name, changes in VARIANTS.items():
        yield checked(name, partial(compare, sizes.task(**changes), on_gpu, on_cpu))
    many = sizes.task(loss="softmax")._replace(words=sizes.many_words, minibatches=1)
    yield checked("softmax, a block of words at a time", partial(compare, many, on_gpu, on_cpu))


def step_checks(gpu: Gpu, sizes: Sizes, kernels: Kernels | None, note: Callable[[str], None]) -> Iterator[Check]:
    """Check minibatches with one launch per time step, or a product and a launch, by the products chosen for this
    GPU."""
    units = sizes.settings.hidden
    if kernels is None:
        rows = sizes.large_batch * sizes.settings.bptt
        kernels = Kernels(choose_gemm(gpu, Extent(rows, 4 * units, units + 1), note))
    large = f"{sizes.large_batch} rows"
    for name, changes in VARIANTS.items():
        task = sizes.task(batch=sizes.large_batch, **changes)
        yield checked(f"{name}, {large}", partial(compare, task, maker(gpu, kernels), on_cpu))
    for name in WITH_STEP_PRODUCTS:
        task = sizes.task(batch=sizes.large_batch, **VARIANTS[name])
        by_products = maker(gpu, replace(kernels, step_products=True))
        yield checked(f"{name}, {large}, a product per time step", partial(compare, task, by_products, on_cpu))


def state_checks(gpu: Gpu, sizes: Sizes, kernels: Kernels) -> Iterator[Check]:
    task, on_gpu = sizes.task(optimizer="adam", adam="exact", lr=0.01), maker(gpu, kernels)
    yield checked("training resumed on the GPU", partial(compare_resumed, task, on_cpu, on_gpu))
    yield checked("training resumed on the CPU", partial(compare_resumed, task, on_gpu, on_cpu))
    yield checked("dynamic evaluation", partial(compare_adapted, sizes.task(), on_gpu, on_cpu))


def maker(gpu: Gpu, kernels: Kernels) -> Maker:
    def make(task: Task) -> Device:
        device = CudaDevice(task.parameters(), task.settings, task.counts, END_OF_LINE, gpu, kernels)
        device.prepare_training()
        return device

    return make


def _every_kernel(gpu: Gpu, sizes: Sizes) -> dict[str, float]:
    """Raise if no check has run some kernels."""
    plans = plans_of(gpu, sizes)
    unused = {name for name, plan in plans.items() if plan is None}
    missing = {name for name in KERNELS if name not in gpu.kernels_run | unused}
    if missing:
        raise RuntimeError(f"no check has run {', '.join(sorted(missing))}")
    return {}


def plans_of(gpu: Gpu, sizes: Sizes) -> dict[str, PersistentPlan | None]:
    """Return the plans of persistent kernels, which run all time steps in one launch, by name; None if this GPU
    cannot."""
    task = sizes.task()
    network = Network(gpu, Kernels(TiledGemm(gpu)), task.parameters().shape, [], task.settings.batch)
    return {lstm.forward.name: network.forward_plan, lstm.backward.name: network.backward_plan}


def describe_plans(gpu: Gpu, sizes: Sizes) -> str:
    return "; ".join(f"{name}: {describe(plan)}" for name, plan in plans_of(gpu, sizes).items())
