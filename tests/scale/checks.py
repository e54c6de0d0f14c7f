"""What is checked inside of processes, by each for itself: mpirun python -m tests.scale.checks NAME …"""

import sys
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from neglm_cli.errors import NeglmError
from neglm_cli.lm.alignment import align
from neglm_cli.lm.cpu.batch_parts import PARTS
from neglm_cli.lm.cpu.device import CpuDevice
from neglm_cli.lm.device import Device
from neglm_cli.lm.settings import Settings
from neglm_cli.lm.tensors import whole
from neglm_cli.scale.agreement import at_first, check_same, from_first
from neglm_cli.scale.launch import start
from neglm_cli.scale.ranks import ALONE, Ranks, shares
from neglm_cli.scale.rows import agree_on_rows
from tests.lm.making import END_OF_LINE, SMALL, counts, minibatch, parameters
from tests.lm.test_device import VARIANTS, WORDS, compare


def exchanges(ranks: Ranks) -> None:
    """Every process knows what the others must have given."""
    rank, size = ranks.rank, ranks.size
    everyone = range(size)
    for length in (0, 1, size - 1, size, 1000):
        numbers = [np.random.default_rng(other).normal(size=length).astype(np.float32) for other in everyone]
        expected = numbers[0].copy()
        for other in numbers[1:]:
            expected += other  # in this order, in float32: the same bits
        mine = numbers[rank].copy()
        ranks.sum(mine)
        assert mine.tobytes() == expected.tobytes()
    before = ranks.sent
    ranks.sum(np.zeros(size * 10, np.float32))
    assert ranks.sent - before == 2 * 4 * 10 * (size - 1)
    assert ranks.collect(np.full(rank + 1, rank)).tolist() == [other for other in everyone for _ in range(other + 1)]
    at_the_first = ranks.collect_at_first(np.full(2, rank))
    assert at_the_first.tolist() == ([other for other in everyone for _ in range(2)] if rank == 0 else [rank] * 2)
    given = np.concatenate([np.full(other + 1, 10 * rank + other) for other in everyone])
    received, coming = ranks.exchange(given, np.array([other + 1 for other in everyone]))
    assert coming.tolist() == [rank + 1] * size
    assert received.tolist() == [10 * other + rank for other in everyone for _ in range(rank + 1)]
    assert agree_on_rows(ranks, np.array([7, rank, 5], np.int32)).tolist() == sorted({5, 7, *everyone})
    assert ranks.any(rank == size - 1)
    assert not ranks.any(False)
    assert ranks.share(rank) == 0
    assert ranks.all(rank) == list(everyone)
    assert ranks.start(ranks.all, "word").result() == ["word"] * size


def agreement(ranks: Ranks) -> None:
    check_same(ranks, "sampling", "tea", "drink the same")
    with pytest.raises(NeglmError, match="the same sampling as rank 0: 'coffee' and not 'tea'; drink the same"):
        check_same(ranks, "sampling", "tea" if ranks.rank == 0 else "coffee", "drink the same")
    assert from_first(ranks, lambda: 40 + 2) == 42

    def fail() -> None:
        raise NeglmError(f"rank {ranks.rank} has failed")

    with pytest.raises(NeglmError, match="rank 0 has failed"):
        at_first(ranks, fail)
    turns: list[int] = ranks.all(ranks.in_turn(lambda: ranks.rank))
    assert turns == list(range(ranks.size))
    begun, used = time.monotonic(), time.process_time()
    ranks.in_turn(lambda: time.sleep(0.5 if ranks.rank == 0 else 0))
    assert time.process_time() - used < 0.5 * (time.monotonic() - begun)  # waiting ranks leave the core to the others


def trains(ranks: Ranks, kind: str, *variants: str) -> None:
    """As the reference does with all rows; and the state of all rows is at the first process."""
    for variant in variants:
        settings = replace(SMALL, **{"threads": 1} | VARIANTS[variant])
        if kind == "cuda":
            settings = replace(settings, batch=3, bptt=3, hidden=5, embedding=4, k=3, threads=1)
        starts = shares(settings.batch, ranks.size)
        rows = slice(starts[ranks.rank], starts[ranks.rank + 1])
        compare(settings, _device(kind, settings, ranks), (None, 2, None), rows)
        _restores(kind, settings, ranks)
        if kind == "cpu" and PARTS % ranks.size == 0:
            _same_bits(settings, ranks)


def _same_bits(settings: Settings, ranks: Ranks) -> None:
    """After some minibatches at a rate that makes much of the last bit, the last of them a short one."""
    trained = []
    for who in (ranks, ALONE):
        device = _device("cpu", settings, who)
        for number in range(4):
            device.train(minibatch(settings, WORDS, number, steps=2 if number == 3 else None)).result()
        trained.append(whole(device.parameters()))
        device.close()
    for name, values in trained[0].items():
        np.testing.assert_array_equal(values, trained[1][name], err_msg=name)


def _restores(kind: str, settings: Settings, ranks: Ranks) -> None:
    """What is saved by all goes on in one process, as it does in all."""
    together = _device(kind, settings, ranks)
    together.train(minibatch(settings, WORDS, 0)).result()
    saved = whole(together.parameters() | together.state())
    after = together.train(minibatch(settings, WORDS, 1)).result()
    together.close()
    if ranks.rank == 0:
        alone = CpuDevice(parameters(settings, WORDS), settings, counts(WORDS), END_OF_LINE)
        alone.prepare_training()
        alone.restore(saved)
        wanted = alone.train(minibatch(settings, WORDS, 1)).result()
        assert abs(after.loss - wanted.loss) < 1e-4 * wanted.loss
        assert abs(after.norm - wanted.norm) < 1e-3 * wanted.norm
        alone.close()


def aligns(ranks: Ranks) -> None:
    """Who has drifted apart goes on alike."""
    device = CpuDevice(parameters(SMALL, WORDS), SMALL, counts(WORDS), END_OF_LINE, ranks)
    device.prepare_training()
    assert not align(device, ranks)
    expected = whole(device.parameters())
    if ranks.rank:
        device.weights.embedding[3, 2] += 1e-6
    assert align(device, ranks)
    for name, values in whole(device.parameters()).items():
        np.testing.assert_array_equal(values, expected[name])
    device.train(minibatch(SMALL, WORDS, 0)).result()
    assert not align(device, ranks)
    device.close()


def _device(kind: str, settings: Settings, ranks: Ranks) -> Device:
    made = parameters(settings, WORDS)
    if kind == "cpu":
        device: Device = CpuDevice(made, settings, counts(WORDS), END_OF_LINE, ranks)
    else:
        from neglm_cli.lm.cuda.device import CudaDevice
        from neglm_cli.lm.cuda.product import Tiled
        from tests.lm.cuda.executors import SMALL_PRODUCTS, SMALL_STEPS, make_gpu

        gpu = make_gpu()
        multiplier = Tiled(gpu, SMALL_PRODUCTS, SMALL_PRODUCTS)
        device = CudaDevice(made, settings, counts(WORDS), END_OF_LINE, gpu, multiplier, SMALL_STEPS, ranks)
    device.prepare_training()
    return device


if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    processes = start()
    checks: dict[str, Callable[..., None]] = {
        "exchanges": exchanges, "agreement": agreement, "trains": trains, "aligns": aligns
    }  # fmt: skip
    checks[name](processes, *arguments)
    print(f"rank {processes.rank} of {processes.size}: {name}")
    processes.finish()
