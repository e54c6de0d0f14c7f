"""Measures what can be known of the GPU path without a GPU: executed instructions, and the host's time.

    python benchmarks/gpu_measure.py > neglm_cli/lm/cuda/measured.json
    python benchmarks/gpu_measure.py --counts FILE MODEL ...     # count these models again, and keep the rest of FILE

A minibatch of each model runs on the software GPU of the tests (tests/lm/cuda/software), once with its kernels
translated to C, which count their PTX instructions, and many times with kernels that do nothing, for the time that the
host spends on launches and copies. Times are CPU seconds of this machine, not of a GPU.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

WORDS = 10_000
MODELS: dict[str, dict[str, Any]] = {
    "2×300, batch 20": {"hidden": 300, "layers": 2, "batch": 20},
    "1×512, batch 80": {"hidden": 512, "layers": 1, "batch": 80, "optimizer": "adam", "bptt": 5},
    "1×512, batch 1000, tf32": {
        "hidden": 512, "layers": 1, "batch": 1000, "optimizer": "adam", "bptt": 2, "precision": "tf32",
    },
}  # fmt: skip
PACKAGES = ROOT / "tests" / "lm" / "cuda" / "software" / "packages"  # emulated cuBLAS, whose work is not counted
PROCESSORS, SHARED = 108, 163  # of an A100; KB of shared memory per block
REPEATS, ROUNDS = 100, 5


def measure(model: str, environment: dict[str, str], host: dict[str, Any] | None) -> dict[str, Any]:
    """Return the counts of a minibatch by kernel, and the seconds of the host per minibatch: not with cuBLAS, whose
    products are the host's here. host: a known result."""
    with tempfile.TemporaryDirectory() as directory:
        counts, fault = Path(directory) / "counts", Path(directory) / "fault"
        a100 = {"SOFTWARE_GPU_PROCESSORS": str(PROCESSORS), "SOFTWARE_GPU_SHARED": str(SHARED)}
        common = os.environ | environment | a100 | {"PYTHONPATH": f"{ROOT}:{PACKAGES}"}
        child = [sys.executable, "-W", "ignore", __file__, "--child", model]
        subprocess.run([*child, "1"], env=common | {"SOFTWARE_GPU_COUNTS": str(counts)}, check=True)
        kernels = by_kernel(counts.read_text(encoding="ascii"))
        if host is not None or "precision" in MODELS[model]:
            return {"kernels": kernels} | ({} if host is None else {"host": host})
        fault.write_text("wrong numbers", encoding="ascii")
        done = subprocess.run(
            [*child, str(REPEATS)], env=common | {"SOFTWARE_GPU_FAULT": str(fault)}, check=True, capture_output=True
        )
        return {"kernels": kernels, "host": json.loads(done.stdout)}


def by_kernel(lines: str) -> dict[str, dict[str, int]]:
    """Sum launches, threads, instructions, fused multiply-adds and accesses to memory by kernel, after the mark."""
    found: dict[str, dict[str, int]] = {}
    names = ("threads", "instructions", "multiply_adds", "accesses")
    for line in lines.rpartition("MARK\n")[2].splitlines():
        mangled, *values = line.split()
        of = found.setdefault(name_of(mangled), dict.fromkeys(("launches", *names), 0))
        of["launches"] += 1
        for name, value in zip(names, values, strict=False):
            of[name] += int(value)
    return found


def name_of(mangled: str) -> str:
    """Return the name of a kernel's function, the last part of its mangled name; those of closures are the same."""
    rest, name = mangled.removeprefix("_ZN"), mangled
    while length := re.match(r"\d+", rest):
        end = length.end() + int(length[0])
        name, rest = rest[length.end() : end], rest[end:]
    return name


def child(model: str, repeats: int) -> None:
    import numpy as np

    from neglm_cli.lm.checks import END_OF_LINE, Task
    from neglm_cli.lm.cuda.blas import cublas_of
    from neglm_cli.lm.cuda.device import CudaDevice
    from neglm_cli.lm.cuda.gemm import TiledGemm
    from neglm_cli.lm.cuda.gpu import Gpu
    from neglm_cli.lm.cuda.network import Kernels
    from neglm_cli.lm.device import Minibatch
    from neglm_cli.settings.train_lm import Settings

    settings = Settings(**{"embedding": MODELS[model]["hidden"], "threads": 1, **MODELS[model]})
    task, gpu = Task(settings, WORDS), Gpu()
    rounded = cublas_of(gpu, settings.precision) if settings.precision != "fp32" else None
    kernels = Kernels(TiledGemm(gpu), rounded_gemm=rounded)
    device = CudaDevice(task.parameters(), settings, task.counts, END_OF_LINE, gpu, kernels)
    device.prepare_training()
    rows, steps = settings.batch, settings.bptt
    shares = np.cumsum(task.counts / task.counts.sum())
    words = np.searchsorted(shares, np.random.default_rng(1).random((2, rows, steps))).clip(max=WORDS - 1)
    inputs, targets = words.astype(np.int32)
    positions = (np.arange(steps) + 1 + 1000 * np.arange(rows)[:, None]).astype(np.uint64)
    batches = [Minibatch(inputs, targets, positions, 0, number, number + 1, 0.01) for number in range(repeats)]
    if repeats == 1:
        with open(os.environ["SOFTWARE_GPU_COUNTS"], "a", encoding="ascii") as file:
            file.write("MARK\n")
        device.train(batches[0]).result()
        return
    for batch in batches[:10]:
        device.train(batch).result()
    times, before = [], gpu.launches
    for _ in range(ROUNDS):
        begun = time.process_time()
        for batch in batches:
            device.train(batch).result()
        times.append((time.process_time() - begun) / len(batches))
    launches = (gpu.launches - before) / (ROUNDS * len(batches))
    print(json.dumps({"seconds": min(times), "launches": launches}))


def main() -> None:
    from tests.lm.cuda.software.build import build, missing

    if missing():
        sys.exit(missing())
    known, models = {}, list(MODELS)
    if sys.argv[1:2] == ["--counts"]:
        known, models = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")), sys.argv[3:]
    with tempfile.TemporaryDirectory() as directory:
        environment = build(Path(directory))
        found = {model: measure(model, environment, known.get(model, {}).get("host")) for model in models}
        print(json.dumps(known | found, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], int(sys.argv[3]))
    else:
        main()
