"""Resource usage of the compiled GPU kernels on seven architectures: registers, shared memory, occupancy, inner loops.

    python benchmarks/gpu_kernels.py > benchmarks/gpu/kernels.md

Needs no GPU, but numba-cuda and NVIDIA's assembler and linker (neglm[dev]). Spilled registers are an error.
"""

import re
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from gpu_sass import KINDS, Loop, busiest_loop

import neglm_cli.lm.cuda.device  # noqa: F401  (registers all kernels)
from neglm_cli.lm.cuda import lstm, network, sampled, tables
from neglm_cli.lm.cuda.gpu import KERNELS, SHARED_BYTES, Kernel, ptx
from neglm_cli.lm.cuda.network import FLOAT_BYTES, PersistentPlan, persistent_plan
from neglm_cli.lm.parameters import padded

WARP = 32
REGISTERS = 65536  # per multiprocessor
REGISTER_UNIT, WARP_UNIT = 256, 4  # allocation granularity: registers of a warp, and warps
BATCH, HIDDEN = 20, 300  # of the model for which occupancy is computed
LARGE_BATCH, LARGE_HIDDEN = 80, 512


@dataclass(frozen=True)
class Architecture:
    """Limits from NVIDIA's tables of compute capabilities, and the multiprocessors of one GPU."""

    capability: tuple[int, int]
    threads: int  # per multiprocessor
    blocks: int
    shared: int  # KB
    most_shared: int  # KB, of a block, of which all beyond 48 must be asked for
    reserved: int  # bytes of shared memory reserved per block
    gpu: str
    multiprocessors: int

    @property
    def name(self) -> str:
        return "sm_{}{}".format(*self.capability)


ARCHITECTURES = (
    Architecture((7, 5), 1024, 16, 64, 64, 0, "T4", 40),
    Architecture((8, 0), 2048, 32, 164, 163, 1024, "A100", 108),
    Architecture((8, 6), 1536, 16, 100, 99, 1024, "RTX 3090", 82),
    Architecture((8, 9), 1536, 24, 100, 99, 1024, "RTX 4090", 128),
    Architecture((9, 0), 2048, 32, 228, 227, 1024, "H100", 132),
    Architecture((10, 0), 2048, 32, 228, 227, 1024, "B200", 148),
    Architecture((12, 0), 1536, 24, 100, 99, 1024, "RTX 5090", 170),
)


A100 = ARCHITECTURES[1]


class Assembled(NamedTuple):
    registers: int
    shared: int  # bytes
    stack: int
    loop: Loop | None  # the innermost one with the most work


def tool(name: str) -> Path:
    found = find_spec("nvidia")
    for directory in (found.submodule_search_locations if found else None) or []:
        path = Path(directory) / "cu13" / "bin" / name
        if path.exists():
            return path
    sys.exit(f"{name} is missing (pip install 'neglm[dev]')")


def assemble(kernel: Kernel, architecture: Architecture) -> Assembled:
    """Assemble a kernel. Cooperative kernels call a library, which is linked."""
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
            made = Path(directory) / "k"
        loop = busiest_loop(run([tool("nvdisasm"), "-c", made])) if architecture == A100 else None
    registers, shared = re.search(r"[Uu]sed (\d+) registers", said), re.search(r"(\d+) bytes smem", said)
    assert registers is not None, said
    return Assembled(int(registers[1]), int(shared[1]) if shared else 0, int(stack[1]), loop)


def run(command: list[Any]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return done.stdout + done.stderr


def resident_blocks(assembled: Assembled, architecture: Architecture, threads: int, dynamic: int) -> int:
    """Return the maximum number of resident blocks per multiprocessor."""
    warps = -(-threads // WARP)
    of_a_warp = -(-assembled.registers * WARP // REGISTER_UNIT) * REGISTER_UNIT
    by_registers = REGISTERS // of_a_warp // WARP_UNIT * WARP_UNIT // warps
    shared = -(-(assembled.shared + dynamic + architecture.reserved) // 128) * 128
    by_shared = (architecture.shared << 10) // shared if shared else architecture.blocks
    return min(architecture.blocks, architecture.threads // (WARP * warps), by_registers, by_shared)


class Paper:
    """A GPU on paper, as far as `persistent_plan` needs it."""

    def __init__(self, assembled: dict[str, Assembled], architecture: Architecture, kilobytes: int = 0) -> None:
        """kilobytes: the most shared memory of a block, by default what the GPU has."""
        self._assembled, self._architecture = assembled, architecture
        self.multiprocessors = architecture.multiprocessors
        self.shared_bytes = (kilobytes or architecture.most_shared) << 10

    def most_blocks(self, kernel: Kernel, threads: int, shared: int) -> int:
        blocks = resident_blocks(self._assembled[kernel.name], self._architecture, threads, shared)
        return blocks * self._architecture.multiprocessors


def launched(kernel: Kernel, plans: dict[str, PersistentPlan | None]) -> tuple[int, int]:
    """Return the threads and the dynamic shared memory of a block."""
    plan = plans.get(kernel.name)
    if plan is not None:
        return plan.grid.threads, plan.grid.shared
    if kernel is tables.gather_gradients:
        return tables.gather_threads(padded(HIDDEN + 1)), 0
    return kernel.threads, sampled.shared_bytes(HIDDEN + 1) if kernel is sampled.token_loss else 0


def assemble_all(architecture: Architecture) -> dict[str, Assembled]:
    made = {kernel.name: assemble(kernel, architecture) for kernel in KERNELS.values()}
    print(f"{architecture.name}: {len(made)} kernels", file=sys.stderr)
    return made


def main() -> None:
    kernels = list(KERNELS.values())
    plans: dict[Architecture, dict[str, PersistentPlan | None]] = {}
    with ProcessPoolExecutor() as processes:
        table = dict(zip(ARCHITECTURES, processes.map(assemble_all, ARCHITECTURES), strict=True))
    for architecture, made in table.items():
        gpu: Any = Paper(made, architecture)
        plans[architecture] = plans_of(gpu, HIDDEN, BATCH)
    report(kernels, table, plans)
    report_shared(table)
    report_loops(kernels, table, plans)


def plans_of(gpu: Any, hidden: int, batch: int) -> dict[str, PersistentPlan | None]:
    return {
        "forward": persistent_plan(gpu, lstm.forward, hidden, hidden, batch, lstm.GATES),
        "backward": persistent_plan(gpu, lstm.backward, hidden, lstm.GATES * hidden, batch, 1),
    }


def report(
    kernels: list[Kernel], table: dict[Architecture, dict[str, Assembled]],
    plans: dict[Architecture, dict[str, PersistentPlan | None]],
) -> None:  # fmt: skip
    names = " | ".join(architecture.name for architecture in ARCHITECTURES)
    lines = "|---" * len(ARCHITECTURES) + "|"
    print("# Resource usage of the compiled GPU kernels\n")
    print("Generated by `benchmarks/gpu_kernels.py`, with numba-cuda and NVIDIA's ptxas. No kernel spills registers.")
    print("**Nothing here was measured on a GPU.** Threads and shared memory are per block, for a model of")
    print(f"{HIDDEN} units and {BATCH} rows. Occupancy is the theoretical one, as limited by registers, shared memory,")
    print("threads and blocks.\n")
    print(f"## Registers per thread\n\n| kernel | threads | static shared memory | {names} |\n|---|---|---{lines}")
    for kernel in kernels:
        found = [table[architecture][kernel.name] for architecture in ARCHITECTURES]
        static = " or ".join(f"{size:,}" for size in sorted({one.shared for one in found}))
        registers = " | ".join(str(one.registers) for one in found)
        print(f"| {kernel.name} | {launched(kernel, {})[0]} | {static} | {registers} |")
    stacks = [
        f"{kernel.name} on {architecture.name}: {table[architecture][kernel.name].stack}"
        for kernel in kernels
        for architecture in ARCHITECTURES
        if table[architecture][kernel.name].stack
    ]
    print(f"\nBytes of stack, in local memory: {'; '.join(stacks) or 'none'}.")
    if stacks:
        print("There, sums leave the registers once, after the last FMA, because a loop is not unrolled.")
    print(f"\n## Occupancy\n\n| kernel | {names} |\n|---{lines}")
    for kernel in kernels:
        print(f"| {kernel.name} | {' | '.join(occupancy(kernel, a, table[a], plans[a]) for a in ARCHITECTURES)} |")
    print("\n## All steps in one launch\n")
    print("The plans of `network.persistent_plan`; `-` for one launch per step.\n")
    print("| GPU | | kernel | blocks | threads | shared memory | units per block | slices |\n" + "|---" * 8 + "|")
    for architecture in ARCHITECTURES:
        for name, plan in plans[architecture].items():
            cells = (
                f"{plan.grid.blocks} | {plan.grid.threads} | {plan.grid.shared:,} | {plan.tiling.block_units} | "
                f"{plan.tiling.slices}"
                if plan
                else "- | | | |"
            )
            print(f"| {architecture.gpu} | {architecture.name} | {name} | {cells} |")


SHARED = """
## More shared memory

A block has 48 KB of shared memory, unless its kernel asks the driver for more. The plans above ask for what the GPU
has. Their blocks, one for each multiprocessor or nearly, read the same bytes as with 48 KB, but the backward pass
copies them to shared memory in fewer stages, and a T4 runs the forward pass in one launch. For 80 rows at 512 units,
each time step is a launch instead: one launch for all would mostly read more bytes. *Stages*: copies to shared memory,
each between two barriers, per time step; *read*: by all blocks, per time step.

| model | GPU | kernel | shared memory, at most | blocks | stages | read, MB |
|---|---|---|---|---|---|---|"""


def report_shared(table: dict[Architecture, dict[str, Assembled]]) -> None:
    """Compare plans with 48 KB of shared memory and with all that a block can have."""
    print(SHARED)
    for hidden, batch in ((HIDDEN, BATCH), (LARGE_HIDDEN, LARGE_BATCH)):
        model = f"{hidden} units, {batch} rows"
        if batch >= network.LARGE_BATCH:
            for name, kernel, inner, outer in (
                ("step_forward", lstm.STEP_KERNELS.forward, hidden, lstm.GATES * hidden),
                ("step_backward", lstm.STEP_KERNELS.backward, lstm.GATES * hidden, hidden),
            ):
                down, across = -(-batch // kernel.tile[0]), -(-hidden // kernel.tile[1])
                size = FLOAT_BYTES * (across * batch * inner + down * inner * outer)
                print(
                    f"| {model} | all, now | {name} | 8 KB | {down * across} | {-(-inner // 16)} | {size / 1e6:.1f} |"
                )
        for architecture, made in table.items():
            for kilobytes in (SHARED_BYTES >> 10, architecture.most_shared):
                plans = plans_of(Paper(made, architecture, kilobytes), hidden, batch)
                for name, plan in plans.items():
                    inner = hidden if name == "forward" else lstm.GATES * hidden
                    cells = shared_cells(plan, hidden, inner, batch)
                    print(f"| {model} | {architecture.gpu} | {name} | {kilobytes} KB | {cells} |")


def shared_cells(plan: PersistentPlan | None, hidden: int, inner: int, batch: int) -> str:
    if plan is None:
        return "- | | "
    blocks = -(-hidden // plan.tiling.block_units)
    stages = -(-inner // plan.tiling.depth) * -(-batch // plan.tiling.rows_at_once)
    return f"{blocks} | {stages} | {FLOAT_BYTES * blocks * batch * inner / 1e6:.1f}"


def report_loops(
    kernels: list[Kernel], table: dict[Architecture, dict[str, Assembled]],
    plans: dict[Architecture, dict[str, PersistentPlan | None]],
) -> None:  # fmt: skip
    print(f"\n## Innermost loops, {A100.name}\n")
    print("SASS instructions, by nvdisasm, of the innermost loop with the most fused multiply-adds (FFMA), or of the")
    print(
        "largest one. A multiprocessor issues four warps' instructions per cycle, of any kind; the share of FFMA is the"
    )
    print("most that it can reach of its peak FLOP/s. Shared memory is that of a block at launch.\n")
    print(f"| kernel | shared memory | instructions | {' | '.join(KINDS)} | share of FFMA |")
    print("|---" * (len(KINDS) + 4) + "|")
    for kernel in kernels:
        shared = launched(kernel, plans[A100])[1] + table[A100][kernel.name].shared
        assert shared <= A100.most_shared << 10
        loop = table[A100][kernel.name].loop
        if loop is None:
            print(f"| {kernel.name} | {shared:,} | no loop |" + " |" * (len(KINDS) + 1))
            continue
        counts = " | ".join(str(loop.kinds[kind]) for kind in KINDS)
        print(f"| {kernel.name} | {shared:,} | {loop.size} | {counts} | {loop.share:.0%} |")


def occupancy(
    kernel: Kernel, architecture: Architecture, assembled: dict[str, Assembled], plans: dict[str, PersistentPlan | None]
) -> str:
    threads, shared = launched(kernel, plans)
    blocks = resident_blocks(assembled[kernel.name], architecture, threads, shared)
    return f"{blocks * -(-threads // WARP) * WARP / architecture.threads:.0%}"


if __name__ == "__main__":
    main()
