"""The machine's hardware and software, for `neglm doctor`: without names of the host, its users or their directories,
except the cache's."""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from neglm_cli.cli.options import machine_memory
from neglm_cli.errors import NeglmError, visible

OK, MISSING, BROKEN = "ok", "missing", "broken"
BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "OMP_NUM_THREADS")
LEAST_DISK = 1 << 30  # bytes; less is mentioned
MPI_SECONDS = 30  # that MPI may take to print its version


class Found(NamedTuple):
    """A component. `what` describes it or, if it is missing, says how to get it."""

    name: str
    state: str
    what: str


def found() -> Iterator[Found]:
    yield Found("Python", OK, f"{platform.python_version()}, {platform.system()} {platform.machine()}")
    yield _numba()
    yield _cpu()
    yield _blas()
    yield _memory()
    yield _cache()
    yield _mpi()
    yield _extra("plots", "matplotlib", "matplotlib", "plot")
    yield _extra("cuBLAS", "nvmath", "nvmath-python", "cublas")


def gpu_row(device: str) -> Found:
    """Return why no GPU can be used, if so."""
    from neglm_cli.lm.devices import CPU, UnusableGpuError, open_gpu

    if device == CPU:
        return Found("GPU", MISSING, "not looked for: --device cpu")
    try:
        open_gpu(device)
    except UnusableGpuError as error:
        return Found("GPU", BROKEN if error.broken else MISSING, str(error))
    return Found("GPU", OK, "available")


def home_as_tilde(path: Path) -> str:
    try:
        home = Path.home()
    except RuntimeError:  # there is none
        return visible(str(path))
    return visible(str(Path("~") / path.relative_to(home) if path.is_relative_to(home) else path))


def _numba() -> Found:
    import numpy as np

    return Found("Numba", OK, f"{version('numba')}, llvmlite {version('llvmlite')}, NumPy {np.__version__}")


def _cpu() -> Found:
    import llvmlite.binding as llvm

    from neglm_cli.kernels.compilers import usable_cores

    cores = usable_cores()
    return Found("CPU", OK, f"{_count(cores, 'core')} of {os.cpu_count()}, {llvm.get_host_cpu_name()}")


def _blas() -> Found:
    """Return NumPy's BLAS, and its threads according to the environment."""
    import numpy as np

    built = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    set_ = [f"{name}={os.environ[name]}" for name in BLAS_THREADS if name in os.environ]
    threads = visible(", ".join(set_)) or "one thread per core"
    return Found("BLAS", OK, f"{built.get('name', 'unknown')} {built.get('version', '')}, {threads}")


def _memory() -> Found:
    total, free = machine_memory(), _free_memory()
    return Found("memory", OK, f"{size(total)}" if free is None else f"{size(free)} free of {size(total)}")


def _free_memory() -> int | None:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            fields = dict(line.split(":", 1) for line in file)
        return int(fields["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError, ValueError):
        return None


def _cache() -> Found:
    """Check the directory for encoded copies of texts and compiled kernels."""
    from neglm_cli.text.encoded import default_cache

    try:
        directory = default_cache()
    except NeglmError as error:
        return Found("cache", BROKEN, str(error))
    name = home_as_tilde(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory) as file:
            file.write(bytes(1 << 12))
            file.flush()
        free = shutil.disk_usage(directory).free
    except OSError as error:
        return Found(
            "cache", BROKEN, f"{name} cannot be written ({error.strerror}): set NEGLM_CACHE to another directory"
        )
    scarce = "" if free >= LEAST_DISK else ", which is low: a text takes 4 bytes per word"
    return Found("cache", OK, f"{name} is writable, {size(free)} free{scarce}")


def _mpi() -> Found:
    """Check MPI in a process of its own, which a broken MPI may crash."""
    row = _extra("MPI", "mpi4py", "mpi4py", "mpi")
    if row.state != OK:
        return row
    script = "from mpi4py import MPI; print(MPI.Get_library_version())"
    try:
        tried = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=MPI_SECONDS)
    except subprocess.TimeoutExpired:
        return Found("MPI", BROKEN, f"{row.what} hangs: check that `mpiexec -n 1 true` works")
    if tried.returncode:
        return Found("MPI", BROKEN, f"{row.what} finds no MPI library: install Open MPI or MPICH")
    library = tried.stdout.decode(errors="replace").splitlines()[0].split(",")[0]  # without its builder
    return Found("MPI", OK, f"{row.what}, {visible(' '.join(library.split()))}")


def _extra(name: str, module: str, package: str, extra: str) -> Found:
    if find_spec(module) is None:
        return Found(name, MISSING, f"pip install 'neglm[{extra}]'")
    return Found(name, OK, f"{package} {_version(package)}")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "of unknown version"


def size(count: int) -> str:
    return f"{count / 1e9:,.1f} GB"


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
