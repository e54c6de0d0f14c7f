import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neglm_cli.text.tokens import WordSpans, first_space, last_space, padded, split
from tests.text.reference import sentences, texts


def split_all(text: bytes, capacity: int) -> list[list[bytes]]:
    """Split a text that ends with a newline into lines of words, through arrays of this size."""
    array = padded(text)
    starts, ends, line_ends = np.empty((3, capacity), np.int64)
    lines: list[list[bytes]] = [[]]
    position = 0
    while position < len(text):
        before = position
        words, newlines, position = split(array, position, len(text), WordSpans(starts, ends, line_ends))
        assert position > before
        line = 0
        for i in range(words + 1):
            while line < newlines and line_ends[line] == i:
                lines.append([])
                line += 1
            if i < words:
                lines[-1].append(text[starts[i] : ends[i]])
        assert line == newlines
    assert lines.pop() == []
    return lines


@given(texts, st.sampled_from([128, 129, 200, 1024]))
def test_splits_like_python(text: bytes, capacity: int) -> None:
    text += b"\n"
    assert split_all(text, capacity) == sentences(text)


@pytest.mark.parametrize("length", [1, 63, 64, 65, 127, 128, 129, 1000])
def test_word_that_ends_with_the_text(length: int) -> None:
    text = b"x" * length
    starts, ends, line_ends = np.empty((3, 128), np.int64)
    assert split(padded(text), 0, length, WordSpans(starts, ends, line_ends)) == (1, 0, length)
    assert (starts[0], ends[0]) == (0, length)


def test_whitespace_bytes_are_those_of_python() -> None:
    for byte in range(256):
        text = b"a" + bytes([byte]) + b"b\n"
        assert split_all(text, 128) == sentences(text)


@pytest.mark.parametrize("padding", [b"x", b"\n"])
def test_padding_is_not_read_as_text(padding: bytes) -> None:
    array = padded(b"one")
    array[3:] = ord(padding)
    starts, ends, line_ends = np.empty((3, 128), np.int64)
    assert split(array, 0, 3, WordSpans(starts, ends, line_ends)) == (1, 0, 3)
    assert ends[0] == 3


@given(texts)
def test_first_and_last_space(text: bytes) -> None:
    array = padded(text)
    where = [i for i in range(len(text)) if text[i : i + 1].isspace()]
    assert first_space(array, 0, len(text)) == (where[0] if where else len(text))
    assert last_space(array, 0, len(text)) == (where[-1] + 1 if where else 0)


def test_stops_before_the_array_of_line_ends_is_full() -> None:
    starts, ends = np.empty((2, 128), np.int64)
    guarded = np.full(4096, -7)
    _, lines, position = split(padded(b"\n" * 1000), 0, 1000, WordSpans(starts, ends, guarded[:128]))
    assert lines == position <= 128
    assert (guarded[128:] == -7).all()
