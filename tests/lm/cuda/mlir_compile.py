"""Compiles all kernels with numba-cuda-mlir, the successor of numba-cuda, for `test_mlir`; prints, by kernel, the
error, or an empty string. Its modules take the place of Numba's, before neglm imports them."""

import json
import sys
from types import ModuleType

from numba_cuda_mlir import cuda  # type: ignore[import-not-found]
from numba_cuda_mlir.numba_cuda import extending, types  # type: ignore[import-not-found]
from numba_cuda_mlir.numba_cuda.core import config  # type: ignore[import-not-found]

CAPABILITY = (8, 0)


def substitute() -> None:
    numba, core = ModuleType("numba"), ModuleType("numba.core")
    config.ENABLE_CUDASIM = 0  # it has no simulator
    vars(core).update(config=config, types=types)
    vars(numba).update(vars(types), cuda=cuda, core=core, extending=extending, types=types)
    sys.modules |= {
        "numba": numba, "numba.core": core, "numba.core.config": config, "numba.core.types": types,
        "numba.cuda": cuda, "numba.extending": extending,
    }  # fmt: skip


def main() -> None:
    substitute()
    from neglm_cli.lm.cuda import device, gpu, probe  # noqa: F401  (which define kernels)

    found = {}
    for name, kernel in gpu.KERNELS.items():
        try:
            cuda.compile_ptx(kernel.function, types.void(*kernel.types), cc=CAPABILITY)
            found[name] = ""
        except Exception as error:  # whatever a compiler raises
            found[name] = f"{type(error).__name__}: {error}"
    print(json.dumps(found))


if __name__ == "__main__":
    main()
