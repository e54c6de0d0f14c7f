"""Builds the software GPU: a driver and a linker that stand in for NVIDIA's, so that neglm and Numba run on a machine
without a GPU, unchanged. See driver.c.

    python -m tests.lm.cuda.software.build DIRECTORY     # prints the environment to run commands in
"""

import os
import shlex
import shutil
import subprocess
import sys
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from tests.lm.cuda.software.translate import SOURCES

HERE = Path(__file__).parent
COMPILER = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
LINKER = "libnvJitLink.so.13"


def real_linker() -> Path | None:
    """Return NVIDIA's linker, if it is installed."""
    found = find_spec("nvidia")
    directories = (found.submodule_search_locations if found else None) or []
    return next((path for each in directories if (path := Path(each) / "cu13" / "lib" / LINKER).exists()), None)


def missing() -> str:
    """Return what the software GPU needs and this machine lacks; empty if nothing."""
    if COMPILER is None:
        return "there is no C compiler"
    return "" if real_linker() else "nvJitLink is not installed (neglm[dev])"


def build(directory: Path, kernels: Path | None = None) -> dict[str, str]:
    """Build it. Return the variables of the environment that select it. kernels: a directory for translated ones."""
    assert COMPILER is not None
    flags = ["-O1", "-g", "-shared", "-fPIC", "-w", "-U_FORTIFY_SOURCE", f"-I{HERE}"]
    linker, driver = directory / LINKER, directory / "libcuda.so.1"
    subprocess.run([COMPILER, *flags, f"-Wl,-soname,{LINKER}", "-o", linker, HERE / "linker.c", "-ldl"], check=True)
    needed = ["-Wl,--no-as-needed", f"-L{directory}", f"-l:{LINKER}", f"-Wl,-rpath,{directory}"]
    soname = "-Wl,-soname,libcuda.so.1"
    subprocess.run([COMPILER, *flags, soname, "-o", driver, HERE / "driver.c", *needed, "-ldl", "-lm"], check=True)
    link = directory / "libcuda.so"
    link.unlink(missing_ok=True)
    link.symlink_to(driver.name)
    kernels = kernels or directory / "kernels"
    sources = [COMPILER.encode(), *((HERE / name).read_bytes() for name in SOURCES)]
    translated = kernels / f"of-{sha256(b''.join(sources)).hexdigest()[:16]}"
    translated.mkdir(parents=True, exist_ok=True)
    translate = [sys.executable, "-I", "-S", str(HERE / "translate.py"), "PTX", str(kernels), COMPILER]
    path = os.pathsep.join(filter(None, [str(directory), os.environ.get("LD_LIBRARY_PATH")]))
    return {
        "LD_LIBRARY_PATH": path,
        "SOFTWARE_GPU_LINKER": str(real_linker()),
        "SOFTWARE_GPU_TRANSLATE": shlex.join(translate),
        "SOFTWARE_GPU_TRANSLATED": str(translated),
    }


if __name__ == "__main__":
    made = Path(sys.argv[1])
    made.mkdir(exist_ok=True)
    print(" ".join(f"{name}={shlex.quote(value)}" for name, value in build(made.resolve()).items()))
