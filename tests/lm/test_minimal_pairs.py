"""Minimal pairs are read from JSONL and columns, and judged by the probability of whole sentences."""

import json
from pathlib import Path

import numpy as np
import pytest

from neglm_cli.errors import NeglmError
from neglm_cli.lm.lines import BATCH_WORDS, LineEncoder, LineScorer
from neglm_cli.lm.minimal_pairs import MinimalPair, PairFile, PairTally, judge_pairs
from neglm_cli.lm.reference_device import ReferenceDevice
from neglm_cli.text.word_index import WordIndex
from tests.lm.making import END_OF_LINE, SMALL, counts, parameters

WORDS = 12


def test_blimp(workplace: Path) -> None:
    line = {"sentence_good": "Ça va?", "sentence_bad": "Va ça?", "UID": "order", "linguistics_term": "syntax"}
    bare = {name: line[name] for name in ("sentence_good", "sentence_bad")}
    Path("set.a.jsonl").write_text("\n".join([json.dumps(line), "", json.dumps(bare)]), encoding="utf-8")
    pairs = list(PairFile("set.a.jsonl").read())
    assert pairs[0] == MinimalPair("Ça va?".encode(), "Va ça?".encode(), "order", "syntax")
    assert pairs[1][2:] == ("set", "set")
    Path("bom.jsonl").write_bytes(b"\xef\xbb\xbf" + json.dumps(bare | {"UID": None, "linguistics_term": None}).encode())
    assert [pair[2:] for pair in PairFile("bom.jsonl").read()] == [("bom", "bom")]


def test_columns(workplace: Path) -> None:
    Path("pairs.tsv").write_bytes(b"a b\tb a\r\nc\td\n")
    assert [pair[:2] for pair in PairFile("pairs.tsv").read()] == [(b"a b", b"b a"), (b"c", b"d")]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"a\tb\nonly one\n", "line 2 of pairs, at byte 4, is no minimal pair (it has 1 of 2 columns)"),
        (b"a\tb\tc\n", "line 1 of pairs, at byte 0, is no minimal pair (it has 3 of 2 columns)"),
        (b"a\t \n", "line 1 of pairs, at byte 0, is no minimal pair (one is empty)"),
        (
            b'{"sentence_good": "", "sentence_bad": "a"}',
            "line 1 of pairs, at byte 0, is no minimal pair (one is empty)",
        ),
        (b'{"sentence_good": "a"}\n', "line 1 of pairs, at byte 0, is no minimal pair (a sentence is missing)"),
        (b'\n{"sentence_good": \n', "line 2 of pairs, at byte 1, is no minimal pair (expecting value at column 19)"),
        (b"\n \n", "pairs has no minimal pairs: expected lines with"),
    ],
)
def test_bad_lines(workplace: Path, text: bytes, reason: str) -> None:
    Path("pairs").write_bytes(text)
    with pytest.raises(NeglmError) as error:
        list(PairFile("pairs").read())
    assert str(error.value).startswith(reason)


def test_judgments() -> None:
    names = [b"<eos>" if id_ == END_OF_LINE else b"w%d" % id_ for id_ in range(WORDS)]
    names[3] = b"<unk>"
    encoder = LineEncoder(WordIndex.of(names, np.arange(WORDS, 0, -1)))
    device = ReferenceDevice(parameters(SMALL, WORDS), SMALL, counts(WORDS), END_OF_LINE)
    scorer = LineScorer(device.scorer(BATCH_WORDS), END_OF_LINE)
    sentences = [b"w1 w2 w4", b"w4 w2 w1", b"w1 w5 new", b"w1 w5 other", b"w1 w1 w1", b"w6 w7"]
    lines = encoder.encode(sentences)
    totals = lines.sums(scorer.score_lines(lines))
    pairs = [MinimalPair(a, b, "", "") for a in sentences for b in sentences] * 10  # more than one batch
    tally = PairTally()
    for number, (pair, correct, tie, oov) in enumerate(judge_pairs(pairs, encoder, scorer, bytes)):
        good, bad = divmod(number % 36, 6)
        assert pair == pairs[number]
        assert tie == (good == bad or {good, bad} == {2, 3})
        assert correct == (not tie and totals[good] > totals[bad])
        assert oov == bool({2, 3} & {good, bad})
        tally.add(correct, tie, oov)
    assert (tally.pairs, tally.ties, tally.oov, tally.correct) == (360, 80, 200, 140)
    assert tally.accuracy == 140 / 360
    assert tally.accuracy_without_oov == 60 / 160
    assert (PairTally().accuracy, PairTally().accuracy_without_oov) == (None, None)
