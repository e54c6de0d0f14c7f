"""Kernels called from Python: arguments and results of all types, several signatures, errors."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from neglm_cli.errors import NeglmError
from neglm_cli.kernels import cache, compiled_together, inlined, kernel

DTYPES = "?bBhHiIlLfd"


class Pair(NamedTuple):
    array: np.ndarray
    number: int


class Nested(NamedTuple):
    pair: Pair
    scale: np.float32
    flag: bool


@kernel
def echo(value: Any) -> Any:
    return value


@kernel
def total(array: np.ndarray) -> float:
    result = 0.0
    for value in array.flat:
        result += value
    return result


@kernel
def weighted(nested: Nested, more: Any) -> tuple[float, int, bool]:
    result = 0.0
    for i in range(nested.pair.array.shape[0]):
        result += nested.pair.array[i, 0] * nested.scale
    return result, nested.pair.number + more[1], not nested.flag


@kernel
def double(array: np.ndarray) -> None:
    for i in range(array.size):
        array[i] *= 2


@kernel
def reshaped(array: np.ndarray, rows: int) -> float:
    matrix = array.reshape(rows, -1)
    return matrix[rows - 1, 0] + 10.0 * matrix.shape[1]


@kernel
def divided(a: int, b: int) -> int:
    return a // b


@kernel
def allocating(size: int) -> int:
    return np.zeros(size).size


@inlined
def part(number: int) -> int:
    return number + 1


@pytest.mark.parametrize(
    "value", [0, -1, 2**63 - 1, -(2**63), 1.5, float("inf"), True, False, None, (1, 2.5), (1, (True, 3))]
)
def test_python_values(value: Any) -> None:
    assert echo(value) == value
    assert type(echo(value)) is type(value)


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_scalars(dtype: str) -> None:
    values: list[Any] = [0, 1]
    if dtype in "bBhHiIlL":
        values += [np.iinfo(dtype).min, np.iinfo(dtype).max]
    elif dtype != "?":
        values += [-2.5, np.finfo(dtype).max]
    for value in np.array(values, dtype):
        assert echo(value) == value


def test_large_numbers() -> None:
    assert echo(np.uint64(2**64 - 1)) == 2**64 - 1
    with pytest.raises(OverflowError):
        echo(2**63)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(6,), (2, 3), (0,), (2, 0, 3), (1, 2, 3, 1)])
def test_arrays(dtype: str, shape: tuple[int, ...]) -> None:
    """Contiguous, with other strides, and read-only."""
    array = (np.arange(np.prod(shape)) % 2 if dtype == "?" else np.arange(np.prod(shape))).reshape(shape).astype(dtype)
    locked = array.copy()
    locked.flags.writeable = False
    for each in (array, array.T, array[::-1], array[..., ::2], locked):
        assert total(each) == each.sum()


def test_structures() -> None:
    array = np.array([[1, 9], [2, 9]], np.float32)
    nested = Nested(Pair(array, 40), np.float32(0.5), True)
    assert weighted(nested, (0, 2)) == (1.5, 42, False)
    assert weighted(nested._replace(flag=False), (0, 3)) == (1.5, 43, True)
    assert weighted(nested._replace(pair=Pair(array[:, ::-1], 0)), (0, 0)) == (9.0, 0, False)


def test_arrays_are_changed_in_place() -> None:
    array = np.arange(4.0)
    assert double(array) is None
    assert array.tolist() == [0, 2, 4, 6]


def test_a_read_only_array_is_not_changed() -> None:
    array = np.arange(4.0)
    array.flags.writeable = False
    with pytest.raises(NeglmError, match="double could not be compiled"):
        double(array)


def test_reshaping() -> None:
    assert reshaped(np.arange(12.0), 3) == 8 + 40
    assert reshaped(np.arange(12.0).reshape(2, 6), 4) == 9 + 30


def test_views_that_numpy_subclasses_make(tmp_path: Path) -> None:
    np.arange(5.0).tofile(tmp_path / "file")
    with pytest.raises(TypeError, match="not memmap"):
        total(np.memmap(tmp_path / "file", np.float64))
    assert total(np.asarray(np.memmap(tmp_path / "file", np.float64))) == 10


@pytest.mark.parametrize("value", ["text", [1], {}, object(), np.array(["a"]), 1j, np.str_("a"), np.datetime64(1, "s")])
def test_other_types_are_refused(value: Any) -> None:
    with pytest.raises((TypeError, NeglmError)):
        echo(value)


class Float(np.float64):
    pass


def test_subclasses_are_refused() -> None:
    with pytest.raises(TypeError, match="subclasses"):
        echo(Float(1.5))


def test_wrong_number_of_arguments() -> None:
    divided(1, 1)
    for arguments in ((), (1,), (1, 2, 3)):
        with pytest.raises(NeglmError, match="divided could not be compiled"):
            divided(*arguments)


def test_other_byte_orders_are_refused() -> None:
    with pytest.raises(TypeError, match="byte order"):
        total(np.arange(3, dtype=">f8"))


def test_an_error_in_a_kernel_is_raised() -> None:
    assert divided(7, 2) == 3
    with pytest.raises(ArithmeticError, match="divided"):
        divided(1, 0)
    assert divided(-7, 2) == -4


def test_a_kernel_allocates_nothing() -> None:
    with pytest.raises(NeglmError, match="allocating could not be compiled"):
        allocating(3)


def test_functions_of_kernels_are_not_called_by_mistake() -> None:
    with pytest.raises(TypeError, match=r"kernel\(part\)"):
        part(1)
    assert kernel(part)(1) == 2


def test_references_are_counted() -> None:
    array, number = np.arange(300.0), 10**6
    tuples = (array, number)
    before = [sys.getrefcount(each) for each in (array, number, tuples, NotImplemented, None, float, np.ndarray)]
    for _ in range(1000):
        total(array)
        echo((number, 0.5))
        echo(None)
        total(array.reshape(3, 100))
    after = [sys.getrefcount(each) for each in (array, number, tuples, NotImplemented, None, float, np.ndarray)]
    assert all(abs(a - b) < 100 for a, b in zip(before, after, strict=True))


def test_threads_load_a_kernel_at_once() -> None:
    fresh = kernel(total.py_func)  # type: ignore[attr-defined]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda n: fresh(np.arange(n, dtype=np.float32)), [100] * 50)) == [4950] * 50


def test_other_threads_run_while_kernels_are_collected() -> None:
    array = np.ones(3)
    with ThreadPoolExecutor(1) as thread, compiled_together():
        assert total(array) == 0
        assert thread.submit(total, array).result() == 3


def test_kernels_compiled_together_are_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.ones((3, 5), np.int16)
    with compiled_together():
        assert total(array) == 0
        assert double(array[0]) == 0
    assert array.sum() == 15
    monkeypatch.setattr(subprocess, "Popen", None)  # nothing is left to compile
    assert total(array) == 15
    double(array[0])
    assert array.sum() == 20


SCRIPT = """
import json, os, sys
import numpy as np
from neglm_cli.text.tokens import first_space
found = first_space(np.frombuffer(b"word and" + bytes(64), np.uint8).copy(), 0, 8)
child = os.fork()  # which has no compilers
if not child:
    from neglm_cli.text.tokens import last_space
    last_space(np.frombuffer(b"word and" + bytes(64), np.uint8).copy(), 0, 8)
    os._exit(0)
os.waitpid(child, 0)
print(json.dumps([int(found), "numba" in sys.modules]))
"""


def test_numba_is_not_imported(tmp_path: Path) -> None:
    """Neither to compile, in another process, nor to load what was compiled."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    for files in (0, 2):
        assert len(list(tmp_path.glob("*/*.kernel"))) == files
        output = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, check=True, capture_output=True).stdout
        assert json.loads(output) == [4, False]


def test_no_place_for_object_code() -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": "/dev/null/nowhere"}
    output = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, check=True, capture_output=True).stdout
    assert json.loads(output) == [4, False]


LOADING = """
import sys
import neglm_cli.text.tokens
from neglm_cli.kernels import dispatch
dispatch.load_compiled()
print(len(dispatch._all["neglm_cli.text.tokens:first_space"]._calls))
"""


def test_code_for_arguments_of_other_modules_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests compile kernels for structures of their own, which a process that loads everything does not know."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, capture_output=True)
    (directory,) = tmp_path.iterdir()
    monkeypatch.setattr(cache, "kernel_directory", lambda: str(directory))
    cache.write("neglm_cli.text.tokens:first_space", '[["named","tests.unknown","Pair",[["int"]]]]', b"entry\0code")
    output = subprocess.run([sys.executable, "-c", LOADING], check=True, capture_output=True).stdout
    assert int(output) == 1


def test_an_edited_kernel_of_a_test_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    for added in (1, 100):
        (tmp_path / "edited.py").write_text(
            f"from neglm_cli.kernels import kernel\n@kernel\ndef add(x):\n    return x + {added}\n"
        )
        command = [sys.executable, "-B", "-c", "import edited; print(edited.add(1))"]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
        output = subprocess.run(command, check=True, capture_output=True, env=environment, cwd=tmp_path).stdout
        assert int(output) == 1 + added
