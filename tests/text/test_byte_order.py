import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from neglm_cli.text.byte_order import gather_words, sort_by_bytes
from neglm_cli.text.tokens import padded

# Shared prefixes of eight bytes and more, and zero bytes, which look like the padding of short words.
words = st.lists(
    st.one_of(
        st.binary(min_size=1, max_size=20),
        st.tuples(st.sampled_from([b"http://", b"http://a", b"http://ab", b"\x00"]), st.binary(max_size=12)).map(
            b"".join
        ),
        st.integers(1, 20).map(lambda n: b"\x00" * n),
    ),
    unique=True,
    max_size=60,
)


def arrays(words: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    return np.cumsum([0, *map(len, words)]), padded(b"".join(words))


@given(words)
def test_sorts_as_python_does(words: list[bytes]) -> None:
    order = sort_by_bytes(np.arange(len(words)), *arrays(words))
    assert [words[i] for i in order] == sorted(words)


def test_sorts_a_selection_only() -> None:
    words = [b"pear", b"apple", b"fig", b"date"]
    assert sort_by_bytes(np.array([0, 2, 3]), *arrays(words)).tolist() == [3, 2, 0]


def test_many_words_with_a_common_prefix() -> None:
    words = [b"the same beginning %d" % i for i in range(20_000)]
    order = sort_by_bytes(np.arange(len(words)), *arrays(words))
    assert [words[i] for i in order] == sorted(words)


@given(words, st.randoms())
def test_gathers_in_any_order(words: list[bytes], random: "np.random.RandomState") -> None:
    offsets, word_bytes = arrays(words)
    order = np.arange(len(words))
    random.shuffle(order)
    new_offsets, new_word_bytes = np.empty(len(words) + 1, np.int64), np.empty(len(word_bytes), np.uint8)
    gather_words(order, offsets, word_bytes, new_offsets, new_word_bytes)
    joined = b"".join(words[i] for i in order)
    assert new_word_bytes[: len(joined)].tobytes() == joined
    assert new_offsets.tolist() == np.cumsum([0, *(len(words[i]) for i in order)]).tolist()
