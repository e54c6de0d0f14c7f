"""Threads, memory and GPUs of a run."""

import os
from typing import TYPE_CHECKING

from neglm_cli.errors import NeglmError, UsageError
from neglm_cli.scale.agreement import check_same
from neglm_cli.scale.launch import ranks

if TYPE_CHECKING:
    from collections.abc import Callable

    from neglm_cli.lm.cuda.gpu import Gpu


def thread_count(threads: int | None) -> int:
    """Return the number of threads, by default one for each core that this rank has."""
    from neglm_cli.kernels.compilers import usable_cores

    return threads or max(1, usable_cores() // ranks().sharing_cores)


def machine_memory() -> int:
    """Return the bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def find_gpu(device: str, note: "Callable[[str], None]") -> "Gpu | None":
    """Return the GPU that --device names, None for the CPU. With `auto`, if any rank's GPU is unusable, all ranks use
    the CPU, and a note says why."""
    from neglm_cli.lm import devices

    if not devices.is_device(device):
        raise UsageError(f"--device {device} is none of auto, cpu, cuda, cuda:0, cuda:1 and so on.")
    gpu, problem = None, None
    if device != devices.CPU:
        try:
            gpu = devices.open_gpu(device, ranks().local_rank)
        except devices.UnusableGpuError as error:
            if device != devices.AUTO:
                raise NeglmError(f"--device {device} cannot be used: {error}") from error
            problem = error
    problems = [found for found in ranks().allgather(problem and (str(problem), problem.absent)) if found]
    if problems:
        reasons = [reason for reason, absent in problems if not absent or len(problems) < ranks().size]
        gpu = None
        if reasons:
            note(f"using the CPU: {reasons[0]}")
    check_same(ranks(), "kind of device", "cpu" if gpu is None else "cuda", "choose one with --device")
    if gpu is not None:
        note(f"using {gpu.name} (cuda:{gpu.number})")
    return gpu
