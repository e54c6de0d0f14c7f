"""The devices that --device names, and which one is used."""

import re
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.lm.device import Device
from neglm_cli.lm.parameters import Parameters
from neglm_cli.lm.settings import Settings
from neglm_cli.scale.ranks import ALONE, Ranks

if TYPE_CHECKING:
    from neglm_cli.lm.cpu.device import CpuDevice
    from neglm_cli.lm.cuda.gpu import Gpu
    from neglm_cli.lm.model import LanguageModel

AUTO, CPU = "auto", "cpu"
INSTALL = "pip install 'neglm[cuda]'"


def is_device(name: str) -> bool:
    return re.fullmatch(r"auto|cpu|cuda(:\d{1,4})?", name, re.ASCII) is not None


def find_gpu(name: str, process: int = 0) -> "Gpu | None":
    """The GPU that is meant, or None for the processor: `auto` is the first GPU, if there is one that works. If no
    number is given, each process of a machine takes the next one."""
    if name == CPU:
        return None
    number = int(name.partition(":")[2] or (process % gpus() if process else 0))
    missing = what_is_missing(number, simulated=name != AUTO)
    if missing and name == AUTO:
        return None
    if missing:
        raise NeglmError(f"--device {name} cannot be used: {missing}")
    from neglm_cli.lm.cuda.gpu import gpu_of

    return gpu_of(number)


def gpus() -> int:
    """How many there are, one at least: what is wrong with that will be said."""
    if find_spec("numba_cuda") is None:
        return 1
    from neglm_cli.lm.cuda import gpu

    return max(1, gpu.gpus())


def what_is_missing(number: int, simulated: bool = False) -> str:
    """What keeps a GPU from being used, and how to get it; nothing if it can be."""
    if find_spec("numba_cuda") is None:
        return f"the package numba-cuda is not installed ({INSTALL})"
    from neglm_cli.lm.cuda import gpu

    if gpu.IS_SIMULATED:
        return "" if simulated else "there is only Numba's simulator"
    return gpu.what_is_missing(number)


def make_device(
    parameters: Parameters, settings: Settings, counts: np.ndarray, end_of_line: int, gpu: "Gpu | None",
    training: bool, note: Callable[[str], None], ranks: Ranks = ALONE,
) -> Device:  # fmt: skip
    """A device with a model on it; its kernels are loaded or compiled."""
    if gpu is None:
        from neglm_cli.lm.cpu.device import CpuDevice, load_kernels

        ranks.in_turn(lambda: load_kernels(settings, training))
        device: Device = CpuDevice(parameters, settings, counts, end_of_line, ranks)
    else:
        from neglm_cli.lm.cuda.choice import multiplier_for
        from neglm_cli.lm.cuda.device import CudaDevice

        note("compiling kernels for the GPU, which takes a while …")
        shape, rows = parameters.shape, settings.batch * settings.bptt
        multiplier = multiplier_for(gpu, rows, 4 * shape.hidden, shape.hidden + 1, note)
        device = CudaDevice(parameters, settings, counts, end_of_line, gpu, multiplier, ranks=ranks)
    if training:
        device.prepare_training()
    return device


def processor_with(model: "LanguageModel", threads: int) -> "CpuDevice":
    """The processor with a trained model on it: what reads lines one by one, branches and looks at single words."""
    from neglm_cli.lm.cpu.device import CpuDevice, load_kernels

    settings = replace(model.settings, threads=threads)
    load_kernels(settings, training=False)
    return CpuDevice(model.parameters(), settings, model.words.counts, model.end_of_line)
