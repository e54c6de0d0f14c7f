"""GFLOP/s of the LSTM's kernels (`lstm`) or of NumPy's best sgemm (`sgemm`): a part of benchmarks/train_lm.py.

The LSTM is 2×300 with 20 rows and 20 steps, forward and backward, with everything but the tables.
"""

import json
import statistics
import sys
import time
from typing import Any

import numba
import numpy as np

from neglm_cli.barrier import meet
from neglm_cli.lm.cpu import arrays, lstm
from neglm_cli.lm.cpu.batch_parts import batch_parts
from neglm_cli.lm.cpu.device import Team
from neglm_cli.lm.cpu.product import PANEL
from neglm_cli.lm.parameters import Shape, start

SHAPE = Shape(words=100, embedding=300, hidden=300, layers=2)
BATCH, STEPS, THREADS = 20, 20, 2
PRODUCTS = 6  # by the input and the state: forward, for the gradients of the weights, and of what they multiply
FLOP = 2 * PRODUCTS * SHAPE.layers * BATCH * STEPS * 300 * 1200


def sgemm() -> float:
    random = np.random.default_rng(0)
    a, b = (random.random((2048, 2048), np.float32) for _ in range(2))
    c = np.dot(a, b)
    times = []
    for _ in range(12):
        begun = time.perf_counter()
        np.dot(a, b, out=c)
        times.append(time.perf_counter() - begun)
    return 2 * 2048**3 / min(times) / 1e9


@numba.njit(nogil=True)
def pass_through(
    weights: Any, gradients: Any, states: Any, way: Any, back: Any, keep: Any, own: Any, parts: Any, room: Any,
    thread: int, threads: int, counter: Any,
) -> None:  # fmt: skip
    first, last = own.panels[thread], own.panels[thread + 1]
    rows = BATCH * STEPS
    meet(counter, threads)
    for layer in range(2):
        lstm.forward(
            states.x[layer], 300, weights.w[layer], weights.u[layer], weights.b[layer], states.z[layer],
            states.h[layer], states.c[layer], states.out[layer], keep, BATCH, STEPS, first, last, counter, threads,
        )  # fmt: skip
    for layer in range(1, -1, -1):
        lstm.backward(
            states.z[layer], states.c[layer], way.d_out, back.u[layer], own.back[thread], way.d_later[thread],
            way.d_c[thread], keep, BATCH, STEPS, first, last, counter, threads,
        )  # fmt: skip
        lstm.weight_gradients(
            states.x[layer], 300, states.h[layer], states.z[layer], gradients.w[layer], gradients.u[layer],
            gradients.b[layer], parts, STEPS, first, last, room[thread],
        )  # fmt: skip
        lstm.input_gradients(
            states.z[layer], back.w[layer], way.d_x[layer], 300, rows * thread // threads,
            rows * (thread + 1) // threads,
        )  # fmt: skip
    meet(counter, threads)


def lstm_rate() -> float:
    own = arrays.shares(SHAPE, THREADS)
    weights = arrays.packed_weights(start(SHAPE, 1, 0.1, 0.0, 0.0))
    states, way = arrays.states(SHAPE, BATCH, STEPS), arrays.way(SHAPE, BATCH, STEPS, own)
    back = arrays.transposed(SHAPE, own)
    random = np.random.default_rng(0)
    states.x[:] = random.normal(size=states.x.shape)
    way.d_out[:] = random.normal(size=way.d_out.shape)
    for layer in range(SHAPE.layers):
        panels = weights.w.shape[1]
        lstm.transpose(weights.w[layer], back.w[layer], back.w_starts, back.w_ends[layer], 0, panels)
        lstm.transpose(weights.u[layer], back.u[layer], back.u_starts, back.u_ends, 0, panels)
    keep = np.ones(BATCH * (STEPS + 1), np.float32)
    team = Team(THREADS)
    parts, room = batch_parts(BATCH, 0, 1), arrays.zeros(THREADS, 2 * PANEL * 300)
    arguments = (pass_through, weights, arrays.weights_like(weights), states, way, back, keep, own, parts, room)
    team.run(*arguments)
    times = []
    for _ in range(20):
        begun = time.perf_counter()
        for futures in [team.start(*arguments) for _ in range(5)]:
            for future in futures:
                future.result()
        times.append((time.perf_counter() - begun) / 5)
    team.close()
    return FLOP / statistics.median(times) / 1e9


if __name__ == "__main__":
    print(json.dumps({"rate": sgemm() if sys.argv[1] == "sgemm" else lstm_rate()}))
