"""The directory of compiled GPU kernels, so that a second start need not compile them.

Numba checks only the file of a kernel for changes. Therefore the name of the directory depends on all files whose code
is compiled into kernels, on the GPU and on the versions of the driver and of CUDA.
"""

from neglm_cli.kernels.cache import PACKAGE, private_directory, sources, state_of

COMPILED = ("lm", "objective", "settings")  # packages


def kernel_directory(gpu: str) -> str | None:
    """Create the directory for a GPU, described with its versions; None if that fails."""
    files = (file for package in COMPILED for file in sources(str(PACKAGE / package)))
    return private_directory("kernels-gpu", state_of(files, gpu))
