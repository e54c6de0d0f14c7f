"""Values as text: as short as NumPy's, and the same 32 bits when read back."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from neglm_cli.vectors.matrix_text import LONGEST, format_lines

BITS = st.integers(0, 2**32 - 1).filter(lambda bits: bits & 0x7F800000 != 0x7F800000)  # of finite numbers


def texts(numbers: np.ndarray) -> list[str]:
    empty, no_words = np.empty(0, np.uint8), np.zeros(len(numbers) + 1, np.int64)
    written = b"".join(block.tobytes() for block in format_lines(empty, no_words, numbers[:, None], b" "))
    return written.decode().split("\n")[:-1]


def significant(text: str) -> str:
    return text.lower().split("e")[0].replace(".", "").lstrip("-").strip("0")


def reference(number: np.float32) -> str:
    return np.format_float_scientific(number, unique=True, trim="-")


def check(bits: np.ndarray) -> None:
    numbers = bits.astype(np.uint32).view(np.float32)
    written = texts(numbers)
    back = np.array([float(text) for text in written]).astype(np.float32)
    np.testing.assert_array_equal(back.view(np.uint32), numbers.view(np.uint32))
    assert [significant(text) for text in written] == [significant(reference(number)) for number in numbers]
    assert all(len(text) < LONGEST for text in written)


@given(st.lists(BITS, min_size=1))
@example([0x80000000, 0, 1, 0x807FFFFF, 0x00800000, 0x7F7FFFFF])  # -0, 0, denormals, the least and greatest
def test_any_finite_number(bits: list[int]) -> None:
    check(np.array(bits, np.uint32))


def test_around_every_power_of_two_and_in_between() -> None:
    powers = np.arange(1, 255) << 23
    random = np.random.default_rng(1).integers(0, 0x7F800000, 20_000)
    check(np.concatenate([np.arange(2_000), powers - 1, powers, powers + 1, random]))


def test_formats() -> None:
    numbers = [0, -0.0, 1, -1, 0.1, 1.5, 1234567, 1e9, 0.00012, 0.000012, 1e-45, 3.4028235e38, 100, -2.5e20]
    assert texts(np.array(numbers, np.float32)) == [
        "0", "-0", "1", "-1", "0.1", "1.5", "1234567", "1e+09", "0.00012", "1.2e-05", "1e-45", "3.4028235e+38", "100",
        "-2.5e+20",
    ]  # fmt: skip
