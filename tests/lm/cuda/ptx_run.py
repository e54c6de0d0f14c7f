"""Runs the compiled code of all kernels without a GPU, in ptxsim: training and scoring against the reference.

    python -m tests.lm.cuda.ptx_run DIRECTORY [CASE ...]

DIRECTORY contains ptxsim.py. Each case runs under three schedules, which find different errors: all threads in
lockstep, block by block, and one random warp at a time. Races in shared memory, accesses out of bounds and barriers
not reached by all threads are errors. It takes about half an hour.
"""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from neglm_cli.lm.checks import Task, by_reference, compare_adapted
from neglm_cli.lm.cuda import network
from neglm_cli.lm.cuda.checks import maker, sorting_errors
from neglm_cli.lm.cuda.device import CudaDevice
from neglm_cli.lm.cuda.gemm import TiledGemm
from neglm_cli.lm.cuda.gpu import KERNELS, SHARED_BYTES, Grid, Kernel, ptx
from neglm_cli.lm.cuda.network import LARGE_BATCH, Kernels
from tests.lm.making import END_OF_LINE, SMALL, ReferenceTraining, counts, minibatch, model_of, parameters

CAPABILITY = (8, 0)
WORDS = 40
TINY = replace(SMALL, k=3, hidden=7, embedding=5, layers=1, batch=5, bptt=2, threads=1)
LENGTHS = (None, 1)
SCHEDULES: dict[str, dict[str, Any]] = {
    "lockstep": {"coop": True, "racecheck": True},
    "blocks": {"coop": False, "racecheck": True},
    "random": {"coop": True, "sched": "random", "racecheck": False, "seed": 1},
}
MOST_ERROR = 2e-5
RUNNING, AT_BARRIER, EXITED = 0, 1, 3  # states of a thread in ptxsim


@dataclass(frozen=True)
class Case:
    """blocks: resident ones; with 0, each step is a launch. multiprocessors: with one, tiles are large. step_products:
    each step is a product and a launch."""

    changes: dict[str, Any] = field(default_factory=dict)
    blocks: int = 4
    multiprocessors: int = 2
    step_products: bool = False


CASES = {
    "neglm, two layers": Case({"layers": 2}),
    "neglm-b, a launch for each step, large tiles": Case({"loss": "neglm-b"}, 0, 1),
    "nce, shared by a step, adagrad": Case({"loss": "nce", "noise": "step", "optimizer": "adagrad", "lr": 0.05}, 7),
    "neg, reset, exact adam": Case(
        {"loss": "neg", "reset_at_eos": True, "optimizer": "adam", "adam": "exact", "lr": 0.01}, 2
    ),
    "softmax, adam": Case({"loss": "softmax", "optimizer": "adam", "lr": 0.01}, 3),
    "shared by a batch, large tiles": Case({"noise": "batch", "k": 9}, 5, 1),
    "a word with more occurrences than a chunk": Case({"k": 40}),
    "softmax, tied, averaged": Case({"loss": "softmax", "tie": True, "embedding": 7, "average": 1}),
    "all kinds of dropout, a product for each step": Case(
        {"dropout_kind": "variational", "embedding_dropout": 0.2, "recurrent_dropout": 0.4}, step_products=True
    ),
}
ADAPTED = Task(TINY, WORDS, scored=6)
OTHERS: dict[str, Callable[[Any], dict[str, float]]] = {
    "dynamic evaluation": lambda gpu: compare_adapted(ADAPTED, maker(gpu, Kernels(TiledGemm(gpu))), by_reference),
    "sorting, with merges": sorting_errors,
}


def hasty(simulator: Any) -> Any:
    """Return a simulator whose blocks leave a barrier as soon as their own threads have arrived.

    ptxsim holds blocks until all of them are at a barrier, which hides missing synchronization between blocks."""

    class Hasty(simulator.Sim):  # type: ignore[misc]
        def decode0(self, op: str, ops: list[str], text: str) -> tuple[Any, bool]:
            run, controls = super().decode0(op, ops, text)

            def arrive(chosen: Any, lanes: np.ndarray, at: int) -> None:
                run(chosen, lanes, at)
                for block in np.unique(self.blk[lanes]):
                    alive = (self.blk == block) & (self.state != EXITED)
                    if (self.state[alive] == AT_BARRIER).all():
                        self.state[alive] = RUNNING
                        self.epoch[block] += 1

            return (arrive if op.startswith("bar") else run), controls

    return Hasty


class First(np.random.Generator):
    """A generator that always chooses the first thread: each block runs as far as possible before the next one."""

    def choice(self, lanes: Any) -> Any:  # type: ignore[override]
        return lanes[0]


class Done:
    def synchronize(self) -> None:
        pass


class PtxGpu:
    """A substitute for `Gpu` with NumPy arrays."""

    is_timing = False
    shared_bytes = SHARED_BYTES

    def __init__(self, simulator: Any, case: Case, schedule: dict[str, Any]) -> None:
        self._simulator, self._case, self._schedule = simulator, case, schedule
        self.multiprocessors = case.multiprocessors
        self.runs: Counter[str] = Counter()

    def zeros(self, shape: Any, dtype: Any = np.float32) -> np.ndarray:
        return np.zeros(shape, dtype)

    pinned = zeros

    def upload(self, host: np.ndarray) -> np.ndarray:
        return np.array(host)

    download = upload

    def write(self, array: np.ndarray, host: np.ndarray) -> None:
        array[...] = host

    copy_in = write

    def copy_out(self, array: np.ndarray, host: np.ndarray) -> None:
        host[...] = array

    def event(self) -> Done:
        return Done()

    def synchronize(self) -> None:
        pass

    def most_blocks(self, kernel: Kernel, threads: int, shared: int) -> int:
        return self._case.blocks

    def launch(self, kernel: Kernel, grid: Grid | int | tuple[int, ...], /, **arguments: Any) -> None:
        grid = grid if isinstance(grid, Grid) else Grid(grid)
        flat = list(flattened(kernel.ordered(arguments), kernel.types))
        options = self._schedule
        if kernel.cooperative and not options["coop"]:
            options = {"coop": True, "sched": "random", "seed": First(np.random.PCG64())}
        blocks = grid.blocks if isinstance(grid.blocks, tuple) else (grid.blocks,)
        size = (grid.threads or kernel.threads,)
        self._simulator.launch(code_of(kernel), blocks, size, flat, smem=grid.shared, **options)
        self.runs[kernel.name] += 1


def flattened(values: Iterable[Any], types: Iterable[Any]) -> Iterator[Any]:
    """Yield arrays and typed scalars in the order of the compiled kernel's parameters."""
    for value, of in zip(values, types, strict=True):
        if isinstance(value, tuple):
            yield from flattened(value, of.types)
        else:
            yield value if isinstance(value, np.ndarray) else np.dtype(str(of)).type(value)


CODE: dict[str, str] = {}


def code_of(kernel: Kernel) -> str:
    if kernel.name not in CODE:
        CODE[kernel.name] = ptx(kernel, CAPABILITY)
    return CODE[kernel.name]


def run(gpu: Any, case: Case) -> dict[str, float]:
    """Return the largest errors: relative, of losses and norms; of parameters; of scores."""
    settings = replace(TINY, **case.changes)
    network.LARGE_BATCH = 1 if case.step_products else LARGE_BATCH
    kernels = Kernels(TiledGemm(gpu), step_products=case.step_products)
    trained = CudaDevice(parameters(settings, WORDS), settings, counts(WORDS), END_OF_LINE, gpu, kernels)
    trained.prepare_training()
    expected, relative = ReferenceTraining(settings, WORDS), 0.0
    for number, steps in enumerate(LENGTHS):
        batch = minibatch(settings, WORDS, number, steps)
        result, wanted = trained.train(batch).result(), expected.train(batch).result()
        relative = max(relative, abs(result.loss / wanted.loss - 1), abs(result.norm / wanted.norm - 1))
        if settings.average:
            trained.add_to_average(number + 1)
            expected.add_to_average(number + 1)
    if settings.average:
        trained.swap_average()
        expected.swap_average()
    trained.flush_lazy_updates(len(LENGTHS), settings.lr)
    pairs = zip(model_of(trained.parameters(), settings).arrays(), expected.model.arrays(), strict=True)
    absolute = max(float(abs(mine - theirs).max()) for mine, theirs in pairs)
    inputs, targets = np.random.default_rng(0).integers(0, WORDS, (2, 1, 5)).astype(np.int32)
    scorer = trained.scorer(4)
    parts = [scorer.score(inputs[:, part], targets[:, part]) for part in (slice(0, 4), slice(4, 5))]
    scores = np.concatenate([part.log_probabilities for part in parts], axis=1)
    wanted_scores = expected.scorer(5).score(inputs, targets).log_probabilities
    return {"loss and norm": relative, "parameters": absolute, "scores": float(abs(scores - wanted_scores).max())}


def main(directory: str, *names: str) -> int:
    sys.path.append(directory)
    import ptxsim  # type: ignore[import-not-found]

    ptxsim.Sim = hasty(ptxsim)
    failed = False
    runs: Counter[str] = Counter()
    for name in names or [*CASES, *OTHERS]:
        for schedule, options in SCHEDULES.items():
            case, start = CASES.get(name, Case()), time.perf_counter()
            gpu = PtxGpu(ptxsim, case, options)
            try:
                errors = run(gpu, case) if name in CASES else OTHERS[name](gpu)
                found = "  ".join(f"{what} {error:.1e}" for what, error in errors.items())
                bad = not max(errors.values()) <= MOST_ERROR
            except ptxsim.PTXError as error:
                found, bad = str(error), True
            failed |= bad
            runs += gpu.runs
            seconds = time.perf_counter() - start
            print(f"{name:48}{schedule:10}{found}  {seconds:.0f} s{'  WRONG' if bad else ''}", flush=True)
    if not names:
        missing = set(KERNELS) - set(runs)
        failed |= bool(missing)
        print(f"{sum(runs.values())} launches of {len(runs)} kernels; never run: {', '.join(missing) or 'none'}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
