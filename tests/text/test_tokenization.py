"""Raw sentences become the tokens that models of tokenized text know."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neglm_cli.text.tokenization import tokenize

CASES = {
    "Who hugged Richard?": "Who hugged Richard ?",
    "Don't stop, it's well-known.": "Don't stop , it's well-known .",
    "the girls' school ('quoted')": "the girls ' school ( ' quoted ' )",
    "1,200.5 km, in 1999.": "1,200.5 km , in 1999 .",
    "3.14. 1, 2,3 -5": "3.14 . 1 , 2,3 - 5",
    "the 9th of May": "the 9 th of May",
    "«Ça va?» – l’été": "« Ça va ? » – l’été",
    "a  b\tc\r": "a b c",
    "東京は、日本。": "東京は 、 日本 。",
    "हिन्दी में": "हिन्दी में",
    "cafe\u0301s": "cafe\u0301s",
    "می\u200cخواهم": "می\u200cخواهم",
    "👍🏽 ❤\ufe0f!": "👍 🏽 ❤\ufe0f !",
    "x_1 a-b- --": "x _ 1 a-b - - -",
    "in the <unk> of": "in the <unk> of",
    "m² ½ ٣٫٥": "m² ½ ٣ ٫ ٥",
    "": "",
    " \t ": "",
    "\u00a0a\u2003b\u00a0": "a b",
}


@pytest.mark.parametrize("raw", CASES)
def test_tokens(raw: str) -> None:
    assert tokenize(raw.encode()).decode() == CASES[raw]


def test_bytes_that_are_not_utf8_are_kept() -> None:
    assert tokenize(b"caf\xe9, ol\xe9!") == b"caf\xe9 , ol\xe9 !"


@given(st.text())
def test_nothing_is_lost_and_tokens_stay_tokens(text: str) -> None:
    raw = text.encode(errors="surrogatepass").decode(errors="surrogateescape").encode(errors="surrogateescape")
    tokens = tokenize(raw)
    kept = "".join(tokens.decode(errors="surrogateescape").split())
    assert kept == "".join(raw.decode(errors="surrogateescape").split())
    assert tokenize(tokens) == tokens
    assert b"\n" not in tokens


@given(st.text(st.characters(categories=["L", "M"]), min_size=1))
def test_words_of_any_script_stay_whole(word: str) -> None:
    if not unicodedata.category(word[0]).startswith("M"):
        assert tokenize(word.encode()).decode() == word
