"""Checks that each rank runs: mpirun python -m tests.scale.checks NAME …"""

import sys
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from neglm_cli.errors import NeglmError
from neglm_cli.lm.cpu.batch_parts import PARTS
from neglm_cli.lm.cpu.device import CpuDevice
from neglm_cli.lm.device import Device
from neglm_cli.lm.sync import sync_parameters
from neglm_cli.lm.tensors import materialize
from neglm_cli.scale.agreement import broadcast_from_rank0, check_same, on_rank0
from neglm_cli.scale.launch import init_ranks
from neglm_cli.scale.ranks import SINGLE_RANK, Ranks, split_evenly
from neglm_cli.scale.rows import union_of_rows
from neglm_cli.settings.train_lm import Settings
from tests.lm.making import END_OF_LINE, SMALL, TINY, counts, minibatch, parameters
from tests.lm.test_device import WORDS, compare, variant_of


def collectives(ranks: Ranks) -> None:
    """Check collective operations: every rank computes what the others must have sent."""
    rank, size = ranks.rank, ranks.size
    everyone = range(size)
    for length in (0, 1, size - 1, size, 1000):
        numbers = [np.random.default_rng(other).normal(size=length).astype(np.float32) for other in everyone]
        expected = numbers[0].copy()
        for other in numbers[1:]:
            expected += other  # in this order, in float32, for the same bits
        mine = numbers[rank].copy()
        ranks.allreduce(mine)
        assert mine.tobytes() == expected.tobytes()
    before = ranks.bytes_sent
    ranks.allreduce(np.zeros(size * 10, np.float32))
    assert ranks.bytes_sent - before == 2 * 4 * 10 * (size - 1)
    assert ranks.allgather_arrays(np.full(rank + 1, rank)).tolist() == [
        other for other in everyone for _ in range(other + 1)
    ]
    gathered = ranks.gather_arrays(np.full(2, rank))
    assert gathered.tolist() == ([other for other in everyone for _ in range(2)] if rank == 0 else [rank] * 2)
    given = np.concatenate([np.full(other + 1, 10 * rank + other) for other in everyone])
    received, received_counts = ranks.alltoall(given, np.array([other + 1 for other in everyone]))
    assert received_counts.tolist() == [rank + 1] * size
    assert received.tolist() == [10 * other + rank for other in everyone for _ in range(rank + 1)]
    assert union_of_rows(ranks, np.array([7, rank, 5], np.int32)).tolist() == sorted({5, 7, *everyone})
    assert ranks.any(rank == size - 1)
    assert not ranks.any(False)
    assert ranks.broadcast(rank) == 0
    assert ranks.allgather(rank) == list(everyone)
    assert ranks.submit(ranks.allgather, "word").result() == ["word"] * size


def agreement(ranks: Ranks) -> None:
    check_same(ranks, "taste", "tea", "drink the same")
    with pytest.raises(NeglmError, match="the same taste as rank 0: 'coffee' and not 'tea'; drink the same"):
        check_same(ranks, "taste", "tea" if ranks.rank == 0 else "coffee", "drink the same")
    assert broadcast_from_rank0(ranks, lambda: 40 + 2) == 42

    def fail() -> None:
        raise NeglmError(f"rank {ranks.rank} has failed")

    with pytest.raises(NeglmError, match="rank 0 has failed"):
        on_rank0(ranks, fail)
    turns: list[int] = ranks.allgather(ranks.run_staggered(lambda: ranks.rank))
    assert turns == list(range(ranks.size))
    start, used = time.monotonic(), time.process_time()
    ranks.run_staggered(lambda: time.sleep(0.5 if ranks.rank == 0 else 0))
    assert time.process_time() - used < 0.5 * (time.monotonic() - start)  # waiting ranks leave the core to the others


def trains(ranks: Ranks, kind: str, *variants: str) -> None:
    """Compare training with the reference on all rows; rank 0 has the state of all rows."""
    for variant in variants:
        settings = variant_of(replace(SMALL, threads=1) if kind == "cpu" else TINY, variant)
        starts = split_evenly(settings.batch, ranks.size)
        rows = slice(starts[ranks.rank], starts[ranks.rank + 1])
        compare(settings, _device(kind, settings, ranks), (None, 2, None), rows)
        _restores(kind, settings, ranks)
        if kind == "cpu" and PARTS % ranks.size == 0:
            _same_bits(settings, ranks)


def _same_bits(settings: Settings, ranks: Ranks) -> None:
    """Compare bits after some minibatches, the last one short, at a learning rate that amplifies the last bit."""
    trained = []
    for job in (ranks, SINGLE_RANK):
        device = _device("cpu", settings, job)
        for number in range(4):
            device.train(minibatch(settings, WORDS, number, steps=2 if number == 3 else None)).result()
        trained.append(materialize(device.parameters()))
        device.close()
    for name, values in trained[0].items():
        np.testing.assert_array_equal(values, trained[1][name], err_msg=name)


def _restores(kind: str, settings: Settings, ranks: Ranks) -> None:
    """Check that a state saved by all ranks can be resumed on a single one."""
    parallel = _device(kind, settings, ranks)
    parallel.train(minibatch(settings, WORDS, 0)).result()
    saved = materialize(parallel.parameters() | parallel.state())
    after = parallel.train(minibatch(settings, WORDS, 1)).result()
    parallel.close()
    if ranks.rank == 0:
        single = CpuDevice(parameters(settings, WORDS), settings, counts(WORDS), END_OF_LINE)
        single.prepare_training()
        single.restore(saved)
        wanted = single.train(minibatch(settings, WORDS, 1)).result()
        assert abs(after.loss - wanted.loss) < 1e-4 * wanted.loss
        assert abs(after.norm - wanted.norm) < 1e-3 * wanted.norm
        single.close()


def syncs(ranks: Ranks) -> None:
    """Check that ranks with diverged parameters continue with the same ones."""
    device = CpuDevice(parameters(SMALL, WORDS), SMALL, counts(WORDS), END_OF_LINE, ranks)
    device.prepare_training()
    assert not sync_parameters(device, ranks)
    expected = materialize(device.parameters())
    if ranks.rank:
        device.weights.embedding[3, 2] += 1e-6
    assert sync_parameters(device, ranks)
    for name, values in materialize(device.parameters()).items():
        np.testing.assert_array_equal(values, expected[name])
    device.train(minibatch(SMALL, WORDS, 0)).result()
    assert not sync_parameters(device, ranks)
    device.close()


def _device(kind: str, settings: Settings, ranks: Ranks) -> Device:
    made = parameters(settings, WORDS)
    if kind == "cpu":
        device: Device = CpuDevice(made, settings, counts(WORDS), END_OF_LINE, ranks)
    else:
        from neglm_cli.lm.cuda.device import CudaDevice
        from neglm_cli.lm.cuda.gemm import TiledGemm
        from neglm_cli.lm.cuda.network import Kernels
        from tests.lm.cuda.executors import SMALL_GEMMS, SMALL_STEPS, make_gpu

        gpu = make_gpu()
        gemm = TiledGemm(gpu, SMALL_GEMMS, SMALL_GEMMS)
        device = CudaDevice(made, settings, counts(WORDS), END_OF_LINE, gpu, Kernels(gemm, SMALL_STEPS), ranks)
    device.prepare_training()
    return device


if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    job = init_ranks()
    checks: dict[str, Callable[..., None]] = {
        "collectives": collectives, "agreement": agreement, "trains": trains, "syncs": syncs
    }  # fmt: skip
    checks[name](job, *arguments)
    print(f"rank {job.rank} of {job.size}: {name}")
    job.finalize()
