"""Export to and import from gensim: the same bits, the same neighbors."""

from pathlib import Path

import numpy as np
import pytest
from gensim.models import KeyedVectors

from neglm_cli.vectors import exchange
from neglm_cli.vectors.formats import Format
from neglm_cli.vectors.vectors import Vectors
from tests.vectors.exchange import assert_same_bits, read_back, some_vectors

FORMATS = [
    ("out.txt", Format.TEXT),
    ("out.vec.gz", Format.TEXT),
    ("out.bin", Format.BINARY),
    ("out.bin.gz", Format.BINARY),
]


def neighbors(vectors: Vectors, word: int) -> list[str]:
    """Return the other words by cosine, the nearest first."""
    unit = vectors.vectors / np.linalg.norm(vectors.vectors, axis=1, keepdims=True)
    order = np.argsort(-(unit @ unit[word]))
    return [vectors.words[i].decode() for i in order if i != word]


@pytest.mark.parametrize(("name", "format"), FORMATS)
def test_gensim_reads_our_files(workplace: Path, name: str, format: Format) -> None:
    ours = some_vectors()
    exchange.write(ours.words, ours.vectors, name, format)
    theirs = KeyedVectors.load_word2vec_format(name, binary=format is Format.BINARY)
    assert theirs.index_to_key == [word.decode() for word in ours.words]
    assert_same_bits(theirs.vectors, ours.vectors)
    for i, word in enumerate(ours.words):
        assert [found for found, _ in theirs.most_similar(word.decode(), topn=20)] == neighbors(ours, i)


@pytest.mark.parametrize(("name", "format"), FORMATS)
def test_we_read_gensim_files(workplace: Path, name: str, format: Format) -> None:
    ours = some_vectors()
    theirs = KeyedVectors(ours.size)
    theirs.add_vectors([word.decode() for word in ours.words], ours.vectors)
    theirs.save_word2vec_format(name, binary=format is Format.BINARY)
    back = read_back(name)
    assert back.words == list(ours.words)
    assert_same_bits(back.vectors, ours.vectors)


def test_we_read_gensim_text_without_its_header(workplace: Path) -> None:
    ours = some_vectors()
    theirs = KeyedVectors(ours.size)
    theirs.add_vectors([word.decode() for word in ours.words], ours.vectors)
    theirs.save_word2vec_format("glove.txt", write_header=False)
    assert_same_bits(read_back("glove.txt").vectors, ours.vectors)
