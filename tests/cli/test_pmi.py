"""`neglm pmi` on pairs: correct figures, or one clear sentence."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neglm_cli.objective.exact import maximize
from neglm_cli.text.pair_lines import read_pairs
from neglm_cli.text.pairs import Pairs
from neglm_cli.vectors.vectors import NO_CONTEXTS, Vectors
from tests.conftest import Neglm, one_sentence
from tests.objective.making import Dense, random_table


def table_of(pairs: Pairs) -> np.ndarray:
    table = np.zeros((len(pairs.words), len(pairs.contexts)), np.int64)
    table[pairs.rows, pairs.columns] = pairs.counts
    return table


def trained(pairs: Pairs, size: int, **changes: Any) -> Vectors:
    objective = changes.get("objective", "pmi")
    found = maximize(pairs, size, 3, 0.75, objective)
    given: dict[str, Any] = {
        "words": pairs.words,
        "vectors": found.vectors.astype(np.float32),
        "contexts": pairs.contexts,
        "context_vectors": found.context_vectors.astype(np.float32),
        "objective": "pmi",
        "k": 3,
        "noise_alpha": 0.75,
        "arguments": {"pairs": True},
        "files": pairs.files,
    }
    return Vectors(**(given | changes))


@pytest.fixture
def pairs(workplace: Path) -> Pairs:
    table = random_table(1, 9, 7, 0.3)
    lines = [f"word {x}\ty{y}\t{table[x, y]}\n" for x, y in zip(*np.nonzero(table), strict=True)]
    Path("pairs.tsv").write_text("".join(lines))
    return read_pairs("pairs.tsv")


def figures(neglm: Neglm, *arguments: str) -> dict[str, Any]:
    result = json.loads(neglm("pmi", *arguments, "--json").stdout)
    assert isinstance(result, dict)
    return result


def test_the_figures(neglm: Neglm, pairs: Pairs) -> None:
    vectors = trained(pairs, 3)
    vectors.save("vectors.safetensors")
    dense = Dense(table_of(pairs), 3, 0.75)
    m = vectors.vectors.astype(float) @ vectors.context_vectors.T.astype(float)
    parts = dense.divergences(m)
    found = figures(neglm, "--top", "4")
    assert found["pmi_matrix"]["log_likelihood"] == pytest.approx(dense.score(dense.pmi), abs=1e-10)
    assert found["vectors"]["log_likelihood"] == pytest.approx(dense.score(m), abs=1e-10)
    assert found["vectors"]["kl_divergence"] == pytest.approx(parts.sum(), abs=1e-10)
    gain = found["independence"]["kl_divergence"]
    assert found["vectors"]["kept"] == pytest.approx(1 - parts.sum() / gain)
    assert 0 < found["svd"]["kept"] < found["vectors"]["kept"] < 1
    assert (found["pairs"], found["distinct_pairs"], found["oov"]) == (pairs.total, len(pairs), 0)

    worst = found["pairs_that_lose_most"]
    assert [pair["kl_divergence"] for pair in worst] == pytest.approx(np.sort(parts.ravel())[::-1][:4])
    x, y = pairs.words.id(worst[0]["word"].encode()), pairs.contexts.id(worst[0]["context"].encode())
    assert parts[x, y] == parts.max()
    assert worst[0]["score"] == pytest.approx(m[x, y])
    assert worst[0]["count"] == table_of(pairs)[x, y]
    assert worst[0]["pmi"] == (None if dense.p[x, y] == 0 else pytest.approx(dense.pmi[x, y]))
    assert found["words_that_lose_most"][0]["kl_divergence"] == pytest.approx(parts.sum(1).max())
    assert found["contexts_that_lose_most"][0]["kl_divergence"] == pytest.approx(parts.sum(0).max())


def test_the_conditional_objective(neglm: Neglm, workplace: Path) -> None:
    table = random_table(2, 6, 5)
    Path("full.tsv").write_text("".join(f"x{x}\ty{y}\t{table[x, y]}\n" for x, y in np.ndindex(6, 5)))
    pairs = read_pairs("full.tsv")
    trained(pairs, 5, objective="cond").save("vectors.safetensors")
    assert figures(neglm)["vectors"]["kept"] == pytest.approx(1, abs=1e-6)
    trained(pairs, 5, objective="cond").save("cond.safetensors")
    assert figures(neglm, "cond.safetensors", "--no-svd")["svd"] is None


def test_samples(neglm: Neglm, pairs: Pairs) -> None:
    trained(pairs, 3).save("vectors.safetensors")
    whole, sample = figures(neglm), figures(neglm, "--sampled", "--samples", "30000", "--seed", "2")
    error = sample["vectors"]["standard_error"]
    assert 0 < error < 0.1 * whole["vectors"]["kl_divergence"]
    assert abs(sample["vectors"]["kl_divergence"] - whole["vectors"]["kl_divergence"]) < 5 * error
    assert whole["vectors"]["standard_error"] == 0
    assert "a sample of 1,000" in neglm("pmi", "--sampled", "--samples", "1000").stdout.decode()


def test_as_text(neglm: Neglm, pairs: Pairs) -> None:
    trained(pairs, 3).save("vectors.safetensors")
    output = neglm("pmi", "--top", "2").stdout.decode()
    for expected in (
        "vectors.safetensors: 3 dimensions, objective pmi, k 3, noise alpha 0.75",
        f"{pairs.total:,}, {len(pairs):,} of them distinct, of 9 words and 7 contexts",
        "computed from   all cells",
        "PMI matrix",
        "100.00%",
        "SVD, rank 3",
        "pairs that lose most",
        "contexts that lose most",
        "word ",
    ):
        assert expected in output
    assert "OOV" not in output
    assert "lose most" not in neglm("pmi", "--top", "0").stdout.decode()
    assert neglm("pmi", "--quiet").stdout == b""


def test_other_pairs(neglm: Neglm, pairs: Pairs) -> None:
    trained(pairs, 3).save("vectors.safetensors")
    text = b"word 1\ty0\t4\nword 2\ty1\nnew\ty1\t5\nword 1\tnew\t6\n"
    result = neglm("pmi", "vectors.safetensors", "--pairs", "-", "--json", stdin=text)
    found = json.loads(result.stdout)
    assert (found["pairs"], found["distinct_pairs"], found["oov"]) == (5, 2, 11)
    assert (found["vocabulary"], found["contexts"]) == (9, 7)
    Path("other.tsv").write_bytes(text)
    assert "OOV             11 pairs" in neglm("pmi", "--pairs", "other.tsv").stdout.decode()
    Path("other.tsv").write_bytes(b"new\ty1\n")
    assert "other.tsv has no pair of a word and a context of vectors.safetensors" in one_sentence(
        neglm("pmi", "--pairs", "other.tsv", code=1).stderr
    )
    Path("other.tsv").write_bytes(b"word 1\ty0\nword 1\n")
    assert "other.tsv, line 2: there is no tab" in one_sentence(neglm("pmi", "--pairs", "other.tsv", code=1).stderr)


def test_vectors_that_do_not_say_how_they_were_trained(neglm: Neglm, pairs: Pairs) -> None:
    trained(pairs, 3, objective="unknown", k=0).save("vectors.safetensors")
    message = "vectors.safetensors does not record how it was trained: give --k and --noise-alpha"
    assert message in one_sentence(neglm("pmi", code=1).stderr)
    assert message in one_sentence(neglm("pmi", "--k", "3", code=1).stderr)
    trained(pairs, 3).save("known.safetensors")
    assert (
        figures(neglm, "--k", "3", "--noise-alpha", "0.75")["vectors"]["log_likelihood"]
        == figures(neglm, "known.safetensors")["vectors"]["log_likelihood"]
    )
    assert "was trained with k 3" in one_sentence(neglm("pmi", "known.safetensors", "--k", "4", code=1).stderr)


def test_refused(neglm: Neglm, pairs: Pairs) -> None:
    assert "no vectors.safetensors here" in one_sentence(neglm("pmi", code=1).stderr)
    whole = trained(pairs, 3)
    Vectors(**(whole.__dict__ | {"contexts": NO_CONTEXTS, "context_vectors": np.empty((0, 3), np.float32)})).save("v")
    assert "v has no context vectors" in one_sentence(neglm("pmi", "v", code=1).stderr)
    Vectors(**(whole.__dict__ | {"vectors": np.full((9, 3), np.inf, np.float32)})).save("v")
    assert "contains NaN, infinite" in one_sentence(neglm("pmi", "v", code=1).stderr)
    Vectors(**(whole.__dict__ | {"files": []})).save("v")
    assert "v has no record of its corpus; name one" in one_sentence(neglm("pmi", "v", code=1).stderr)
    whole.save("v")
    assert "give one of them" in one_sentence(neglm("pmi", "v", "text", "--pairs", "pairs.tsv", code=2).stderr)
    Path("pairs.tsv").write_bytes(b"word 1\ty0\n")
    assert "pairs.tsv, the corpus of v, has changed" in one_sentence(neglm("pmi", "v", code=1).stderr)
