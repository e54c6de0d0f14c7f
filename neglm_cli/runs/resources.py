"""Threads, memory and GPUs of a run."""

import os
import platform
import re
from typing import TYPE_CHECKING

from neglm_cli.errors import NeglmError, UsageError, count_of
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


def _check_device(device: str) -> None:
    from neglm_cli.lm.devices import is_device

    if not is_device(device):
        raise UsageError(
            f"--device {device} is none of auto, cpu, cuda, cuda:1 for the second GPU, cuda:0,1 for two, cuda:all."
        )
    numbers = [int(number) for number in re.findall(r"\d+", device)]
    if repeated := [number for number in numbers if numbers.count(number) > 1]:
        raise UsageError(f"--device {device} has GPU {repeated[0]} more than once: name each GPU once.")


def listed_gpus(device: str) -> list[int]:
    """Return the GPUs that --device lists (cuda:0,1 or cuda:all), which exist; none if it has no list."""
    from neglm_cli.lm import devices

    _check_device(device)
    if not devices.is_list(device):
        return []
    try:
        return devices.find_gpus(device)
    except devices.UnusableGpuError as error:
        raise _unusable(device, error) from error


def _unusable(device: str, error: NeglmError) -> NeglmError:
    return NeglmError(f"--device {device} cannot be used: {error}")


def find_gpu(device: str, note: "Callable[[str], None]") -> "Gpu | None":
    """Return this rank's GPU of those that --device names, None for the CPU. With `auto`, if any rank's GPU is
    unusable, all ranks use the CPU, and a note says why."""
    from neglm_cli.lm import devices

    _check_device(device)
    gpu, problem = None, None
    if device != devices.CPU:
        numbers: list[int] = []
        try:
            numbers = devices.find_gpus(device)
        except devices.UnusableGpuError as error:
            if device != devices.AUTO:
                raise _unusable(device, error) from error
            problem = error
        number = _assigned(device, numbers)
        try:
            gpu = None if number is None else devices.open_gpu(device, number)
        except devices.UnusableGpuError as error:
            if device != devices.AUTO:
                raise _unusable(device, error) from error
            problem = error
    problems = [found for found in ranks().allgather(problem and (str(problem), problem.absent)) if found]
    if problems:
        reasons = [reason for reason, absent in problems if not absent or len(problems) < ranks().size]
        gpu = None
        if reasons:
            note(f"using the CPU: {reasons[0]}")
    check_same(ranks(), "kind of device", "cpu" if gpu is None else "cuda", "choose one with --device")
    if gpu is not None:
        names = ranks().allgather(f"{gpu.name} (cuda:{gpu.number})")
        note(f"using {', '.join(dict.fromkeys(names))}")
    return gpu


def _assigned(device: str, numbers: list[int]) -> int | None:
    """Return the number of this rank's GPU: the ranks of a machine take the next one each. numbers: those of the GPUs,
    best first. The first rank's count for all on its machine, because free memory changes when a rank opens its GPU."""
    from neglm_cli.lm.devices import is_list

    here = [order for machine, order in ranks().allgather((platform.node(), numbers)) if machine == platform.node()]
    if is_list(device) and len(here) != len(numbers):
        named = f"--device {device} names {count_of(len(numbers), 'GPU')}"
        if ranks().size == 1:
            raise UsageError(f"{named}, but this is one process, which uses one: name one of them.")
        raise NeglmError(f"{named}, but {count_of(len(here), 'rank')} run on this machine: start one for each GPU")
    return here[0][ranks().local_rank % len(here[0])] if here[0] else None
