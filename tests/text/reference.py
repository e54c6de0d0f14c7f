"""Plain Python references for the kernels, and texts to test them on."""

import io
from collections import Counter

from hypothesis import strategies as st

from neglm_cli.text.compression import compression_of

# Few letters and much whitespace: words repeat, with every kind of boundary. NUL and 0xff are parts of words.
ALPHABET = b"aab\x00\xff \n\t\r\v\f"
texts = st.one_of(
    st.binary(max_size=300).filter(lambda text: compression_of(text) is None),  # Hypothesis knows our constants
    st.lists(st.sampled_from([bytes([byte]) for byte in ALPHABET]), max_size=400).map(b"".join),
    st.lists(
        st.sampled_from(
            [b"a", b"word", b"of8bytes", b"longer than that", b" ", b"\n", b"x" * 70, b"\xc2\xa0", b"<unk>", b"<eos>"]
        )
    ).map(b" ".join),
)


def sentences(text: bytes) -> list[list[bytes]]:
    """Return the words of every line, including a last line without a newline."""
    return [line.split() for line in io.BytesIO(text)]


def counts(*parts: bytes) -> Counter[bytes]:
    return Counter(word for text in parts for words in sentences(text) for word in words)
