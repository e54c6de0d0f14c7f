"""GFLOP/s of the LSTM kernels (`lstm`) or of NumPy's best sgemm (`sgemm`): part of benchmarks/train_lm.py.

The LSTM is 2×300 with 20 rows and 20 steps: forward and backward, including the lookup of words, without loss and
optimizer.
"""

import json
import statistics
import sys
import time

import numpy as np

from neglm_cli.lm.cpu import arrays
from neglm_cli.lm.cpu.arrays import BatchArrays, StepConfig
from neglm_cli.lm.cpu.batch_parts import batch_parts
from neglm_cli.lm.cpu.gemm import PANEL, Reduction
from neglm_cli.lm.cpu.step import backward, forward, transpose_layers
from neglm_cli.lm.cpu.tensors import pack_parameters
from neglm_cli.lm.cpu.threads import Team, Worker, synchronize
from neglm_cli.lm.parameters import Shape, initial_parameters
from neglm_cli.settings.train_lm import Settings

SHAPE = Shape(words=100, embedding=300, hidden=300, layers=2)
BATCH, STEPS, THREADS = 20, 20, 2
PRODUCTS = 6  # with input and state: forward, gradients of weights, gradients of inputs and states
FLOP = 2 * PRODUCTS * SHAPE.layers * BATCH * STEPS * 300 * 1200


def sgemm() -> float:
    random = np.random.default_rng(0)
    a, b = (random.random((2048, 2048), np.float32) for _ in range(2))
    c = np.dot(a, b)
    times = []
    for _ in range(12):
        started = time.perf_counter()
        np.dot(a, b, out=c)
        times.append(time.perf_counter() - started)
    return 2 * 2048**3 / min(times) / 1e9


def lstm_rate() -> float:
    owned = arrays.partition(SHAPE, THREADS)
    team = Team(arrays.workers(owned))
    weights = pack_parameters(initial_parameters(SHAPE, Settings()))
    gradients, transposed = arrays.zeros_like(weights), arrays.transposed_weights(SHAPE, owned)
    activations = arrays.activations(SHAPE, BATCH, STEPS)
    buffers = arrays.backward_buffers(SHAPE, BATCH, STEPS, owned)
    random, rows = np.random.default_rng(0), BATCH * STEPS
    buffers.d_y[:] = random.normal(size=buffers.d_y.shape)
    team.results(transpose_layers, weights, transposed)
    words, positions = random.integers(0, SHAPE.words, rows).astype(np.int32), np.arange(rows, dtype=np.uint64)
    batch = BatchArrays(
        words, words, np.ones(rows + BATCH, np.float32), np.ones(rows, np.float32), positions, positions, np.uint64(0),
        np.zeros(SHAPE.layers + 1, np.uint64), np.zeros(SHAPE.layers, np.uint64),
    )  # fmt: skip
    config = StepConfig(BATCH, STEPS, SHAPE.embedding, 0, 0, np.float32(1), np.float32(1), 5.0, 0, 1, 1.0)
    reductions = [Reduction(batch_parts(BATCH, 0, 1), arrays.zeros(2, PANEL * 300)) for _ in range(THREADS)]

    def forward_and_backward(worker: Worker) -> None:
        forward(weights, activations, batch, config, worker)
        synchronize(worker)
        backward(transposed, gradients, activations, buffers, batch, config, reductions[worker.thread], worker)

    team.results(forward_and_backward)
    times = []
    for _ in range(20):
        started = time.perf_counter()
        for futures in [team.start(forward_and_backward) for _ in range(5)]:
            for future in futures:
                future.result()
        times.append((time.perf_counter() - started) / 5)
    team.close()
    return FLOP / statistics.median(times) / 1e9


if __name__ == "__main__":
    print(json.dumps({"rate": sgemm() if sys.argv[1] == "sgemm" else lstm_rate()}))
