"""The least time of each kernel on a GPU, from instructions counted on the software GPU of the tests.

`measured.json` is written by benchmarks/gpu_measure.py.
"""

import json
from pathlib import Path
from typing import Any

WARP = 32
ISSUED = 4  # warps' instructions per cycle and multiprocessor
MEASURED = Path(__file__).with_name("measured.json")
PAPER = "2×300, batch 20"


def issue_rate(multiprocessors: int, clock: float) -> float:
    """Return the most instructions of threads per second."""
    return multiprocessors * clock * ISSUED * WARP


def load_measured() -> dict[str, Any]:
    return dict(json.loads(MEASURED.read_text(encoding="utf-8")))


def least_milliseconds(multiprocessors: int, clock: float) -> dict[str, float]:
    """Return the least time of each kernel in a minibatch of the paper's model, if no issue slot is ever empty."""
    if clock <= 0:
        return {}
    rate = issue_rate(multiprocessors, clock)
    kernels = load_measured()[PAPER]["kernels"]
    return {name: 1e3 * counts["instructions"] / rate for name, counts in kernels.items()}
