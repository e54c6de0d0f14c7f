"""Export to and import from gensim: the same bits, the same neighbors."""

from pathlib import Path

import numpy as np
import pytest
from gensim.models import KeyedVectors

from neglm_cli.vectors import exchange
from neglm_cli.vectors.forms import Form
from neglm_cli.vectors.vectors import Vectors
from tests.vectors.exchange import assert_same_bits, read_back, some_vectors

FORMS = [("out.txt", Form.TEXT), ("out.vec.gz", Form.TEXT), ("out.bin", Form.BINARY), ("out.bin.gz", Form.BINARY)]


def neighbors(vectors: Vectors, word: int) -> list[str]:
    """Return the other words by cosine, the nearest first."""
    unit = vectors.vectors / np.linalg.norm(vectors.vectors, axis=1, keepdims=True)
    order = np.argsort(-(unit @ unit[word]))
    return [vectors.words[i].decode() for i in order if i != word]


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_gensim_reads_our_files(workplace: Path, name: str, form: Form) -> None:
    ours = some_vectors()
    exchange.write(ours.words, ours.vectors, name, form)
    theirs = KeyedVectors.load_word2vec_format(name, binary=form is Form.BINARY)
    assert theirs.index_to_key == [word.decode() for word in ours.words]
    assert_same_bits(theirs.vectors, ours.vectors)
    for i, word in enumerate(ours.words):
        assert [found for found, _ in theirs.most_similar(word.decode(), topn=20)] == neighbors(ours, i)


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_we_read_gensim_files(workplace: Path, name: str, form: Form) -> None:
    ours = some_vectors()
    theirs = KeyedVectors(ours.size)
    theirs.add_vectors([word.decode() for word in ours.words], ours.vectors)
    theirs.save_word2vec_format(name, binary=form is Form.BINARY)
    back = read_back(name)
    assert back.words == list(ours.words)
    assert_same_bits(back.vectors, ours.vectors)


def test_we_read_gensim_text_without_its_header(workplace: Path) -> None:
    ours = some_vectors()
    theirs = KeyedVectors(ours.size)
    theirs.add_vectors([word.decode() for word in ours.words], ours.vectors)
    theirs.save_word2vec_format("glove.txt", write_header=False)
    assert_same_bits(read_back("glove.txt").vectors, ours.vectors)
