"""Product quantization: codes and centroids, matrices that decode rows, and commands on quantized files."""

import json
from pathlib import Path

import numpy as np
import pytest

import neglm_cli
from neglm_cli.vectors.quantization import QuantizedMatrix, quantize, reconstruction_error
from neglm_cli.vectors.vectors import Vectors, load_vectors
from tests.conftest import Neglm, one_sentence
from tests.sgns.making import some_text

TINY = ("--size", "8", "--min-count", "1", "--epochs", "1", "--threads", "1", "--no-cache", "--quiet")


def some_rows(count: int, size: int) -> np.ndarray:
    return np.random.default_rng(count).standard_normal((count, size)).astype(np.float32)


@pytest.mark.parametrize(("size", "dsub"), [(1, 1), (7, 2), (8, 3), (6, 4), (8, 100)])
def test_few_rows_are_kept(size: int, dsub: int) -> None:
    """Rows that are no more than centroids have centroids of their own."""
    rows = some_rows(100, size)
    found = quantize(rows, dsub)
    assert found.codes.shape == (100, -(-size // dsub))
    np.testing.assert_allclose(np.asarray(found), rows, atol=2e-3)  # values that are nearly equal may share one
    assert reconstruction_error(rows, found) < 1e-6


def test_the_error_of_many_rows() -> None:
    """Fewer dimensions in a code, less error; none of it depends on the lengths of vectors."""
    rows = some_rows(3000, 12)
    errors = [reconstruction_error(rows, quantize(rows, dsub)) for dsub in (1, 2, 4)]
    assert 0 < errors[0] < 1e-3 < errors[1] < 0.02 < errors[2] < 0.2
    assert reconstruction_error(rows * 1000, quantize(rows * 1000, 2)) == pytest.approx(errors[1], rel=1e-3)


def test_codes_are_those_of_the_nearest_centroids() -> None:
    rows = some_rows(1000, 6)
    found = quantize(rows, 2)
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    for part in range(3):
        columns = slice(2 * part, 2 * part + 2)
        distances = ((units[:, None, columns] - found.centroids[None, :, columns]) ** 2).sum(axis=2)  # (1000, 256)
        chosen = distances[np.arange(1000), found.codes[:, part]]
        np.testing.assert_allclose(chosen, distances.min(axis=1), atol=1e-6)


def test_zeros_stay_zeros() -> None:
    rows = some_rows(500, 5)
    rows[[0, 7, 499]] = 0
    decoded = np.asarray(quantize(rows, 2))
    assert not decoded[[0, 7, 499]].any()
    assert np.abs(decoded).max(axis=1).astype(bool).sum() == 497
    assert not np.asarray(quantize(np.zeros((3, 5), np.float32), 2)).any()


def test_quantized_matrices_act_like_arrays() -> None:
    found = quantize(some_rows(400, 7), 5)
    decoded, query = np.asarray(found), some_rows(1, 7)[0]
    assert found.shape == decoded.shape
    assert len(found) == 400
    for rows in (5, slice(3, 9), np.array([1, 1, 399]), [0]):
        np.testing.assert_array_equal(found[rows], decoded[rows])
    np.testing.assert_allclose(found.dot(query), decoded @ query, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found.norms(), np.linalg.norm(decoded, axis=1), rtol=1e-5)


@pytest.fixture(params=[(), ("--subwords", "2-4", "--buckets", "300"), ("--subwords", "2-4", "--floret")])
def small(request: pytest.FixtureRequest, neglm: Neglm, workplace: Path) -> Vectors:
    """Quantized vectors in small.safetensors; the original ones are returned."""
    Path("corpus.txt").write_bytes(some_text(3000))
    neglm("embed", "corpus.txt", *TINY, *request.param)
    result = json.loads(neglm("export", "--quantize", "-o", "small.safetensors", "--json").stdout)
    assert result["bytes"] < result["bytes_before"] + 256 * 8 * 4 * 2
    assert 0 <= result["squared_error"] < 0.1
    assert 0.5 < result["neighbors_kept"] <= 1
    return Vectors.load("vectors.safetensors")


def test_commands_read_quantized_files(neglm: Neglm, small: Vectors) -> None:
    known = load_vectors("small.safetensors")
    assert isinstance(known.vectors, QuantizedMatrix)
    error = np.linalg.norm(np.asarray(known.vectors) - small.vectors, axis=1) / np.linalg.norm(small.vectors, axis=1)
    assert error.mean() < 0.2
    line = neglm("vectors", "w1", "-m", "small.safetensors").stdout.split()
    np.testing.assert_array_equal(np.array(line[1:], np.float32), known.vectors[known.words.id(b"w1")])
    (answer,) = map(json.loads, neglm("nearest", "w1", "-m", "small.safetensors", "--json").stdout.splitlines())
    decoded, id_ = np.asarray(known.vectors), known.words.id(b"w1")
    cosines = decoded @ decoded[id_] / np.linalg.norm(decoded, axis=1) / np.linalg.norm(decoded[id_])
    for each in answer["neighbors"]:
        assert each["cosine"] == pytest.approx(cosines[known.words.id(each["word"].encode())], abs=1e-5)
    assert neglm("analogy", "w1", "w2", "w3", "-m", "small.safetensors").stdout.startswith(b"w1 is to w2 as w3 is to\n")
    Path("rated.tsv").write_text("w1\tw2\t5\nw1\tw3\t4\nw9\tw8\t2\n")
    Path("questions.txt").write_text("w1 w2 w3 w4\n")
    result = json.loads(
        neglm("eval", "small.safetensors", "--similarity", "rated.tsv", "--analogy", "questions.txt", "--json").stdout
    )
    assert (result["similarity"][0]["used"], result["analogy"][0]["total"]["used"]) == (3, 1)
    loaded = neglm_cli.load("small.safetensors")
    assert isinstance(loaded, neglm_cli.WordVectors)
    np.testing.assert_array_equal(loaded.vectors, decoded)
    assert loaded.nearest("w1", 1)[0][0] == answer["neighbors"][0]["word"]
    neglm("export", "small.safetensors", "-o", "small.txt")
    np.testing.assert_array_equal(neglm_vectors("small.txt"), decoded)


def neglm_vectors(path: str) -> np.ndarray:
    return np.array([line.split()[1:] for line in Path(path).read_text().splitlines()[1:]], np.float32)


def test_unknown_words(neglm: Neglm, small: Vectors) -> None:
    loaded = load_vectors("small.safetensors")
    if small.subwords is None:
        assert loaded.subwords is None
        return
    assert loaded.subwords is not None
    one, other = small.subwords.unknown(b"w1x"), loaded.subwords.unknown(b"w1x")
    assert one is not None
    assert other is not None
    assert one @ other / np.linalg.norm(one) / np.linalg.norm(other) > 0.95
    assert b"(w1x: from subwords)" in neglm("nearest", "w1x", "-m", "small.safetensors").stdout


def test_start_from_quantized_vectors(neglm: Neglm, small: Vectors) -> None:
    options = () if small.subwords is None else ("--subwords", "2-4", *["--floret"] * bool(small.subwords.hash_count))
    neglm("embed", "corpus.txt", *TINY, *options, "--lr", "1e-12", "--init-vectors", "small.safetensors", "-o", "again")
    again, start = Vectors.load("again"), load_vectors("small.safetensors")
    expected = np.asarray(start.vectors)
    if start.subwords is not None and start.subwords.hash_count:
        expected = start.subwords.known(start.words)
    np.testing.assert_allclose(again.vectors, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("small.safetensors", "--quantize", "-o", "x"), 1, "small.safetensors is quantized already"),
        (("--dsub", "2", "-o", "x.txt"), 2, "--dsub is for --quantize"),
        (("--similarity", "rated.tsv", "-o", "x.txt"), 2, "--similarity is for --quantize"),
        (("--quantize", "--normalize", "-o", "x"), 2, "leave out --normalize"),
        (("--quantize", "--format", "text", "-o", "x"), 2, "leave out --format"),
        (("--quantize", "--dsub", "0", "-o", "x"), 2, "--dsub must be at least 1"),
        (("--quantize", "-o", "vectors.safetensors"), 2, "is one of the inputs"),
        (("small.safetensors", "--contexts", "-o", "x.txt"), 1, "has no context vectors"),
        (("small.safetensors", "--format", "fasttext", "-o", "x"), 1, "quantized vectors lack the rows of words"),
    ],
)
def test_bad_options(neglm: Neglm, workplace: Path, options: tuple[str, ...], code: int, message: str) -> None:
    Path("corpus.txt").write_bytes(some_text(300))
    neglm("embed", "corpus.txt", *TINY, "--subwords", "2-4", "--buckets", "30")
    neglm("export", "--quantize", "--dsub", "3", "-o", "small.safetensors")
    before = sorted(Path().iterdir())
    assert message in one_sentence(neglm("export", *options, code=code).stderr)
    assert sorted(Path().iterdir()) == before


def test_similarity_before_and_after(neglm: Neglm, workplace: Path) -> None:
    Path("corpus.txt").write_bytes(some_text(3000))
    neglm("embed", "corpus.txt", *TINY)
    Path("rated.tsv").write_text("w1\tw2\t5\nw1\tw3\t4\nw9\tw8\t2\n")
    result = neglm("export", "--quantize", "-o", "small", "--similarity", "rated.tsv")
    assert b"  rated.tsv: Spearman " in result.stdout + result.stderr
    after = json.loads(neglm("eval", "small", "--similarity", "rated.tsv", "--json").stdout)["similarity"][0]
    again = json.loads(neglm("export", "--quantize", "-o", "other", "--similarity", "rated.tsv", "--json").stdout)
    assert again["similarity"][0]["spearman"] == after["spearman"]
    assert Path("small").read_bytes() == Path("other").read_bytes()
