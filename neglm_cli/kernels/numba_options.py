"""How Numba compiles functions of kernels. Imported only in processes that compile.

`_nrt=False` leaves out Numba's runtime, which counts references: no array is allocated in a kernel.
"""

from collections.abc import Callable
from typing import Any

import numba
from numba.core import types

from neglm_cli.kernels.dispatch import Decorator

njit: Any = numba.njit  # whose types lack some options
INNER = {"nogil": True, "_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
ENTRY = INNER | {"no_cpython_wrapper": False}  # the wrapper is that of `entry.py`


def _compiled_once(decorate: Callable[[Any], Any]) -> Decorator:
    """Compile a function for the types of its arguments, not for their values.

    Numba would compile another copy for every constant (0, False, PANEL) that a caller passes.
    """

    def decorator(function: Any) -> Any:
        dispatcher = decorate(function)
        template = dispatcher.get_call_template
        dispatcher.get_call_template = lambda args, kws: template(
            tuple(map(types.unliteral, args)), {name: types.unliteral(kind) for name, kind in kws.items()}
        )
        return dispatcher

    return decorator


_kernel = _compiled_once(njit(**ENTRY))
inlined: Decorator = njit(forceinline=True, **INNER)
outlined: Decorator = _compiled_once(njit(**INNER))
unchecked: Decorator = _compiled_once(njit(error_model="numpy", **INNER))
summed: Decorator = _compiled_once(njit(fastmath={"reassoc", "nsz", "contract"}, **INNER))


def kernel(function: Any) -> Any:
    return function if hasattr(function, "py_func") else _kernel(function)  # tests call other functions as kernels
