"""The GPU's kernels as compiled, for seven architectures: registers, shared memory, and occupancy.

    python benchmarks/gpu_kernels.py > benchmarks/gpu/kernels.md

Needs no GPU, but numba-cuda and NVIDIA's assembler and linker (neglm[dev]). Spilled registers are an error.
"""

import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import neglm_cli.lm.cuda.device  # noqa: F401  (registers all kernels)
from neglm_cli.lm.cuda import lstm
from neglm_cli.lm.cuda.gpu import KERNELS, SHARED_BYTES, Kernel, ptx
from neglm_cli.lm.cuda.network import FLOAT_BYTES, PersistentPlan, persistent_plan

WARP = 32
REGISTERS, REGISTER_UNIT, WARP_UNIT = (
    65536,
    256,
    4,
)  # of a multiprocessor; allocated to a warp at a time; warps allocated at a time
BATCH, HIDDEN = 20, 300  # the model of the occupancies


@dataclass(frozen=True)
class Architecture:
    """From NVIDIA's tables of compute capabilities; multiprocessors are those of one GPU."""

    capability: tuple[int, int]
    threads: int  # of a multiprocessor
    blocks: int
    shared: int  # KB
    reserved: int  # bytes of shared memory that each block takes besides its own
    gpu: str
    multiprocessors: int

    @property
    def name(self) -> str:
        return "sm_{}{}".format(*self.capability)


ARCHITECTURES = (
    Architecture((7, 5), 1024, 16, 64, 0, "T4", 40),
    Architecture((8, 0), 2048, 32, 164, 1024, "A100", 108),
    Architecture((8, 6), 1536, 16, 100, 1024, "RTX 3090", 82),
    Architecture((8, 9), 1536, 24, 100, 1024, "RTX 4090", 128),
    Architecture((9, 0), 2048, 32, 228, 1024, "H100", 132),
    Architecture((10, 0), 2048, 32, 228, 1024, "B200", 148),
    Architecture((12, 0), 1536, 24, 100, 1024, "RTX 5090", 170),
)

GEMM_SMALL = (
    "shared memory: 8 numbers are read for 16 multiply-adds, so at most half of the multiply-adds a processor can do"
)
GEMM_LARGE = "multiply-adds: 64 of them for 16 numbers from shared memory; 8 warps or 16 must hide all latencies"
STEPS = "latency: steps one after the other, each with a wait of all blocks; within one, h (or dz) comes from L2"
LIMITS = {
    "gemm_nn_64": GEMM_SMALL,
    "gemm_tn_64": GEMM_SMALL,
    "gemm_nt_64": GEMM_SMALL,
    "gemm_nn_128": GEMM_LARGE,
    "gemm_tn_128": GEMM_LARGE,
    "gemm_nt_128": GEMM_LARGE,
    "step_forward": "shared memory: 8 numbers for 16 multiply-adds; at 1000 rows of 512 units 512 blocks",
    "step_backward": "shared memory: 4 numbers for 4 multiply-adds, the least of all products",
    "forward": STEPS,
    "backward": STEPS,
    "list_occurrences": "latency of atomic additions; frequent words have one counter each",
    "scan_rows": "latency: one block, a sum over its threads by one of them",
    "order_occurrences": "memory, at random addresses: 5 numbers read for one written",
    "lookup": "memory: a row read, a row written; two hashes of 64 bits for each number with dropout",
    "carry_states": "its launch: 24 KB a layer",
    "gather_gradients": "memory: a row of y for each occurrence (k + 1 of a word), at random; most come from L2",
    "token_loss": "memory: k + 1 rows of the output table for each word, at random, and again, from L1 or L2",
    "shared_loss": "shared memory: the gradient of y is added to there, a read and a write for each multiply-add",
    "log_normalizers": "memory: two passes over scores (rows × words), the second from L2; exp",
    "softmax_gradients": "memory: scores are read and written once; exp",
    "loss_and_gradient_norm": "memory; then one thread adds the parts of 256 blocks, about 10 µs",
    "update_range": "memory: 3 numbers for each weight (SGD) to 7 (Adam)",
    "update_rows": "memory: as update_range, rows at random",
    "flush_lazy_updates": "double precision, of which most GPUs have little: a root and a division for each step",
}


class Assembled(NamedTuple):
    registers: int
    shared: int  # bytes
    stack: int


def tool(name: str) -> Path:
    found = find_spec("nvidia")
    for directory in (found.submodule_search_locations if found else None) or []:
        path = Path(directory) / "cu13" / "bin" / name
        if path.exists():
            return path
    sys.exit(f"{name} is missing (pip install 'neglm[dev]')")


def assemble(kernel: Kernel, architecture: Architecture) -> Assembled:
    """Assemble a kernel. Cooperative kernels call a library, which the linker adds."""
    with tempfile.TemporaryDirectory() as directory:
        source, made = Path(directory) / "k.ptx", Path(directory) / "k.o"
        source.write_text(ptx(kernel, architecture.capability))
        command = [tool("ptxas"), "-v", f"-arch={architecture.name}", source, "-o", made]
        said = run([*command, "-c"] if kernel.cooperative else command)
        stack = re.search(r"(\d+) bytes stack frame, 0 bytes spill stores, 0 bytes spill loads", said)
        if stack is None:
            sys.exit(f"{kernel.name} on {architecture.name} spills registers: {said}")
        if kernel.cooperative:
            library = tool("nvlink").parent.parent / "lib" / "libcudadevrt.a"
            said = run([tool("nvlink"), "-v", f"-arch={architecture.name}", made, library, "-o", Path(directory) / "k"])
            said = said[said.index(f"lstm{len(kernel.name)}{kernel.name}") :].split("\n", 2)[1]
    registers, shared = re.search(r"[Uu]sed (\d+) registers", said), re.search(r"(\d+) bytes smem", said)
    assert registers is not None, said
    return Assembled(int(registers[1]), int(shared[1]) if shared else 0, int(stack[1]))


def run(command: list[Any]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return done.stdout + done.stderr


def blocks_at_once(assembled: Assembled, architecture: Architecture, threads: int, dynamic: int) -> int:
    """The blocks that a multiprocessor runs at once."""
    warps = -(-threads // WARP)
    of_a_warp = -(-assembled.registers * WARP // REGISTER_UNIT) * REGISTER_UNIT
    by_registers = REGISTERS // of_a_warp // WARP_UNIT * WARP_UNIT // warps
    shared = -(-(assembled.shared + dynamic + architecture.reserved) // 128) * 128
    by_shared = (architecture.shared << 10) // shared if shared else architecture.blocks
    return min(architecture.blocks, architecture.threads // (WARP * warps), by_registers, by_shared)


class Paper:
    """The part of a GPU that `persistent_plan` needs."""

    def __init__(self, assembled: dict[str, Assembled], architecture: Architecture) -> None:
        self._assembled, self._architecture = assembled, architecture

    def most_blocks(self, kernel: Kernel, threads: int, shared: int) -> int:
        blocks = blocks_at_once(self._assembled[kernel.name], self._architecture, threads, shared)
        return blocks * self._architecture.multiprocessors


def launched(kernel: Kernel, plans: dict[str, PersistentPlan | None]) -> tuple[int, int]:
    """Threads of a block, and bytes of shared memory that it is launched with."""
    plan = plans.get(kernel.name)
    if plan is not None:
        return plan.grid.threads, plan.grid.shared
    rows = {"token_loss": 1, "shared_loss": 4}.get(kernel.name, 0)
    return kernel.threads, 2 * rows * (HIDDEN + 1) * FLOAT_BYTES


def main() -> None:
    kernels = list(KERNELS.values())
    assert set(LIMITS) == set(KERNELS)
    table: dict[Architecture, dict[str, Assembled]] = {}
    plans: dict[Architecture, dict[str, PersistentPlan | None]] = {}
    for architecture in ARCHITECTURES:
        made = table[architecture] = {kernel.name: assemble(kernel, architecture) for kernel in kernels}
        gpu: Any = Paper(made, architecture)
        plans[architecture] = {
            "forward": persistent_plan(gpu, lstm.forward, HIDDEN, HIDDEN, BATCH, lstm.GATES),
            "backward": persistent_plan(gpu, lstm.backward, HIDDEN, lstm.GATES * HIDDEN, BATCH, 1),
        }
        print(f"{architecture.name}: {len(made)} kernels", file=sys.stderr)
    report(kernels, table, plans)


def report(
    kernels: list[Kernel], table: dict[Architecture, dict[str, Assembled]],
    plans: dict[Architecture, dict[str, PersistentPlan | None]],
) -> None:  # fmt: skip
    names = " | ".join(architecture.name for architecture in ARCHITECTURES)
    lines = "|---" * len(ARCHITECTURES) + "|"
    print("# The GPU's kernels, as compiled\n")
    print("Made by `benchmarks/gpu_kernels.py`, with numba-cuda and NVIDIA's ptxas. No kernel spills registers.")
    print("**Nothing here was measured on a GPU.** Threads and shared memory are those of a block, for a")
    print(
        f"model of {HIDDEN} units and {BATCH} rows; occupancy is the share of a processor's warps that find room, from"
    )
    print("registers, shared memory, threads and blocks.\n")
    print(f"## Registers of a thread\n\n| kernel | threads | static shared memory | {names} |\n|---|---|---{lines}")
    for kernel in kernels:
        found = [table[architecture][kernel.name] for architecture in ARCHITECTURES]
        static = " or ".join(f"{size:,}" for size in sorted({one.shared for one in found}))
        registers = " | ".join(str(one.registers) for one in found)
        print(f"| {kernel.name} | {kernel.threads} | {static} | {registers} |")
    stacks = [
        f"{kernel.name} on {architecture.name}: {table[architecture][kernel.name].stack}"
        for kernel in kernels
        for architecture in ARCHITECTURES
        if table[architecture][kernel.name].stack
    ]
    print(f"\nBytes of stack, which lie in memory: {'; '.join(stacks) or 'none'}.")
    if stacks:
        print("There sums leave the registers once, behind the last multiply-add, because a loop is not unrolled.")
    print(f"\n## Occupancy\n\n| kernel | {names} |\n|---{lines}")
    for kernel in kernels:
        print(f"| {kernel.name} | {' | '.join(occupancy(kernel, a, table[a], plans[a]) for a in ARCHITECTURES)} |")
    print("\n## All steps in one launch\n")
    print("How `network.persistent_plan` divides the work; `-` where there is a launch for each step.\n")
    print("| GPU | | kernel | blocks | threads | shared memory | units of a block | slices |\n" + "|---" * 8 + "|")
    for architecture in ARCHITECTURES:
        for name, plan in plans[architecture].items():
            cells = (
                f"{plan.grid.blocks} | {plan.grid.threads} | {plan.grid.shared:,} | {plan.tiling.block_units} | "
                f"{plan.tiling.slices}"
                if plan
                else "- | | | |"
            )
            print(f"| {architecture.gpu} | {architecture.name} | {name} | {cells} |")
    print("\n## What limits each\n\n| kernel | shared memory at launch, sm_80 | what limits it |\n|---|---|---|")
    a100 = ARCHITECTURES[1]
    for kernel in kernels:
        shared = launched(kernel, plans[a100])[1] + table[a100][kernel.name].shared
        assert shared <= SHARED_BYTES
        print(f"| {kernel.name} | {shared:,} | {LIMITS[kernel.name]} |")


def occupancy(
    kernel: Kernel, architecture: Architecture, assembled: dict[str, Assembled], plans: dict[str, PersistentPlan | None]
) -> str:
    threads, shared = launched(kernel, plans)
    blocks = blocks_at_once(assembled[kernel.name], architecture, threads, shared)
    return f"{blocks * -(-threads // WARP) * WARP / architecture.threads:.0%}"


if __name__ == "__main__":
    main()
