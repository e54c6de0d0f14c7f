import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors.lexicon import PREFIX, find, lower

ends = st.text("ab", min_size=1, max_size=3)
words = st.tuples(st.sampled_from(["", "a" * PREFIX, "a" * (PREFIX - 1)]), ends).map(
    lambda parts: "".join(parts).encode()
)


@given(st.lists(words, unique=True, min_size=1), words)
def test_every_word_is_found_and_no_other(listed: list[bytes], other: bytes) -> None:
    alphabet = WordIndex.of(listed, np.ones(len(listed)))
    assert [find(alphabet, word) for word in listed] == list(range(len(listed)))
    assert find(alphabet, other) == (listed.index(other) if other in listed else -1)
    assert find(alphabet, b"") == -1


def test_lower_case() -> None:
    assert lower("GRÖßE".encode()) == "größe".encode()
    assert lower(b"A\xffB") == b"a\xffb"
