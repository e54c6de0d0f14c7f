"""Launches of a compiled kernel, with less work for the host than Numba's own.

Numba converts some 70 numbers per launch, most of them the addresses, shapes and strides of the same arrays each time.
Here, an array keeps its converted form.
"""

import ctypes
from typing import Any

PACKED = "_neglm_packed"  # the attribute of arrays
SCALARS = {"int64": ctypes.c_int64, "float32": ctypes.c_float, "float64": ctypes.c_double}


def make_launcher(dispatcher: Any) -> "Launcher | None":
    """Make the launcher of a compiled kernel; None if this version of numba-cuda is built in another way."""
    try:
        return Launcher(dispatcher)
    except (AttributeError, ImportError):
        return None


class Launcher:
    """A compiled kernel of Numba's, with a single signature."""

    def __init__(self, dispatcher: Any) -> None:
        import cuda.core  # noqa: F401

        (self._overload,) = dispatcher.overloads.values()
        self._kernel = self._overload._codelibrary.get_cufunc().kernel
        self._convert = self._overload._prepare_args
        self._configurations: dict[Any, Any] = {}

    def launch(self, blocks: Any, threads: int, shared: int, stream: Any, arguments: list[Any]) -> None:
        from cuda.core import launch

        packed: list[Any] = []
        for kind, value in zip(self._overload.argument_types, arguments, strict=True):
            self._pack(kind, value, packed)
        launch(stream, self._configuration(blocks, threads, shared), self._kernel, *packed)

    def allow_shared(self, size: int) -> bool:
        """Let blocks have so many bytes of dynamic shared memory. Return False if that fails."""
        try:
            from cuda.bindings import driver

            attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            status, device = driver.cuCtxGetDevice()
            if not status:
                (status,) = driver.cuKernelSetAttribute(attribute, size, self._kernel.handle, device)
        except (AttributeError, ImportError, RuntimeError, TypeError):  # other versions of the driver or its bindings
            return False
        return not status

    def _configuration(self, blocks: Any, threads: int, shared: int) -> Any:
        key = (blocks, threads, shared)
        if key not in self._configurations:
            from cuda.core import LaunchConfig

            self._configurations[key] = LaunchConfig(
                grid=blocks, block=threads, shmem_size=shared, is_cooperative=self._overload.cooperative
            )
        return self._configurations[key]

    def _pack(self, kind: Any, value: Any, packed: list[Any]) -> None:
        if isinstance(value, tuple):
            for each, field in zip(kind, value, strict=True):
                self._pack(each, field, packed)
        elif hasattr(value, "shape") and value.shape:
            known = getattr(value, PACKED, None)
            if known is None:
                known = []
                self._convert(kind, value, 0, [], known)
                setattr(value, PACKED, known)
            packed += known
        else:
            packed.append(SCALARS[kind.name](value))
