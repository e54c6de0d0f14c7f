"""A naive reference for phrases, with lists, tuples and a Counter."""

import math
import re
from collections import Counter
from itertools import pairwise

from hypothesis import strategies as st

from neglm_cli.text.phrases import Rule

Unit = tuple[bytes, ...]  # a word, or the words of a phrase
Found = tuple[bytes, int, int]  # the words, their count, the pass

WORD = re.compile(rb"[^ \t\n\r\v\f]+")
words = st.sampled_from(
    [b"a", b"b", b"c", b"new", b"york", b"a_b", b"<unk>", b"<eos>", b"\xc2\xa0", b"x" * 70, b"\x00"]
)
spaces = st.sampled_from([b" ", b" ", b" ", b"  ", b"\t", b"\r", b"\n", b"\r\n", b"\n\n", b" \n "])
phrase_texts = st.tuples(
    st.just(b"") | spaces, st.lists(st.tuples(words, spaces).map(b"".join)).map(b"".join), st.just(b"") | words
).map(b"".join)
# Not the logarithm of any fraction, so that rounding never matters.
rules = st.one_of(
    st.builds(Rule, st.just("pmi"), st.sampled_from([-9.9, 0.1, 0.7, 1.3]), st.integers(1, 4)),
    st.builds(Rule, st.just("npmi"), st.sampled_from([-0.99, 0.11, 0.37, 0.71]), st.integers(1, 4)),
)


def score(rule: Rule, pair: int, first: int, second: int, total: int) -> float:
    pmi = math.log(pair * total / (first * second))
    return pmi if rule.score == "pmi" else pmi / -math.log(pair / total)


def phrases_of(sentences: list[list[Unit]], rule: Rule) -> dict[tuple[Unit, Unit], int]:
    units = Counter(unit for sentence in sentences for unit in sentence)
    pairs = Counter(pair for sentence in sentences for pair in pairwise(sentence))
    return {
        (a, b): count
        for (a, b), count in pairs.items()
        if count >= rule.min_count and score(rule, count, units[a], units[b], units.total()) >= rule.threshold
    }


def joined(sentence: list[Unit], phrases: dict[tuple[Unit, Unit], int]) -> list[Unit]:
    result: list[Unit] = []
    i = 0
    while i < len(sentence):
        if i + 1 < len(sentence) and (sentence[i], sentence[i + 1]) in phrases:
            result.append(sentence[i] + sentence[i + 1])
            i += 2
        else:
            result.append(sentence[i])
            i += 1
    return result


def join_text(parts: list[bytes], rule: Rule, passes: int, delimiter: bytes) -> tuple[bytes, list[Found]]:
    """Return the text of these files with its phrases joined, and the phrases."""
    *others, last = filter(None, parts)
    text = b"".join(part if part.endswith(b"\n") else part + b"\n" for part in others) + last
    lines = re.findall(rb"[^\n]*\n|[^\n]+$", text)
    sentences: list[list[Unit]] = [[(word,) for word in WORD.findall(line)] for line in lines]
    found: list[Found] = []
    for number in range(1, passes + 1):
        phrases = phrases_of(sentences, rule)
        found += [(b" ".join(a + b), count, number) for (a, b), count in phrases.items()]
        sentences = [joined(sentence, phrases) for sentence in sentences]
    return b"".join(map(rewritten, lines, sentences, [delimiter] * len(lines))), sorted(found)


def rewritten(line: bytes, units: list[Unit], delimiter: bytes) -> bytes:
    """Return the line with the delimiter in place of whitespace inside units."""
    space = iter(WORD.split(line))  # before, between and after the words
    result = next(space)
    for unit in units:
        result += unit[0]
        for word in unit[1:]:
            next(space)
            result += delimiter + word
        result += next(space)
    return result
