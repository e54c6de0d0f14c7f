"""Training with subwords: the kernels against NumPy, reproducibility, and what is learned."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neglm_cli.settings.embed import Settings
from neglm_cli.sgns import textsource
from neglm_cli.sgns.averaging import Averaging, bytes_of_copies
from neglm_cli.sgns.job import Job
from neglm_cli.sgns.source import Windows
from neglm_cli.sgns.subwords import (
    MOST_WINDOWS,
    allocate_composed,
    batch_windows,
    coupling,
    train_subwords,
    train_subwords_deterministic,
)
from neglm_cli.sgns.tables import NGramTable, Tables
from neglm_cli.sgns.training import Noise, Worker, allocate_scratch, allocate_team, allocate_tiles
from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors.composition import SubwordInputs
from neglm_cli.vectors.ngrams import NGrams, ngram_buckets
from neglm_cli.vectors.vectors import Vectors
from tests.sgns import reference
from tests.sgns.making import job_of, resumed_job, some_text
from tests.sgns.test_training import WORDS, noise_for, some_offsets, some_windows

BUCKETS, K, RATE, BATCH = 97, 5, 0.02, 5
SUBWORDS = {"subwords": "2-4", "buckets": 500}


FLORET = SUBWORDS | {"floret": True, "hash_count": 3}


def some_tables(size: int, parts: int = 1, hash_count: int = 0) -> Tables:
    """Return tables whose words share many n-grams. hash_count: of a table of floret."""
    random = np.random.default_rng(size)
    ngrams = ngram_buckets(WordIndex.of([b"w%d" % i for i in range(WORDS)]), 2, 3, BUCKETS, hash_count)
    tables = Tables(0 if hash_count else WORDS, WORDS, size, parts, ngrams, BUCKETS)
    assert tables.ngrams is not None
    for table in (tables.inputs, tables.outputs, tables.ngrams):
        rows = table.shape[0]
        table[np.arange(rows)] = random.standard_normal((rows, size)).astype(np.float32) / np.sqrt(size)
    return tables


def ngrams_of(tables: Tables) -> NGramTable:
    assert tables.ngrams is not None
    return tables.ngrams


def compose(u: np.ndarray, z: np.ndarray, ngrams: NGrams, word: int) -> np.ndarray:
    own = z[ngrams.ids[ngrams.starts[word] : ngrams.starts[word + 1]]]
    return np.vstack([u[word], own] if len(u) else [own]).mean(axis=0)


def train_reference(
    u: np.ndarray, z: np.ndarray, y: np.ndarray, ngrams: NGrams, windows: Windows, drawn: np.ndarray
) -> float:
    """Train in place: batch by batch, composed vectors in between."""
    loss = 0.0
    for first in range(0, len(windows.targets), BATCH):
        last = min(first + BATCH, len(windows.targets))
        pairs = slice(windows.starts[first], windows.starts[last])
        x = np.array([compose(u, z, ngrams, word) for word in range(WORDS)])
        before = x.copy()
        batch = Windows(
            windows.starts[first : last + 1] - windows.starts[first], windows.contexts[pairs],
            windows.targets[first:last], windows.positions[first:last],
        )  # fmt: skip
        loss += reference.train(x, y, batch, drawn[first:], K, some_offsets(), RATE)
        for word in range(WORDS):
            if len(u):
                u[word] += x[word] - before[word]
            for row in ngrams.ids[ngrams.starts[word] : ngrams.starts[word + 1]]:
                z[row] += x[word] - before[word]
    return loss


def train_with_kernel(tables: Tables, windows: Windows, drawn: np.ndarray) -> float:
    ngrams, row_size = ngrams_of(tables), tables.inputs.row_size
    inputs = SubwordInputs(tables.inputs.flat, ngrams.flat, *ngrams.ngrams, row_size)
    composed = allocate_composed(WORDS, windows, row_size, BATCH)
    buffers = allocate_tiles(1, K, 10), allocate_scratch(10)
    noise = Noise(drawn, K, some_offsets())
    return float(
        train_subwords(inputs, tables.outputs.flat, windows, noise, np.float32(RATE), composed, buffers)
    )  # fmt: skip


@pytest.mark.parametrize("size", [1, 17, 100])
@pytest.mark.parametrize("count", [1, 700])  # windows: less than a batch, and several
@pytest.mark.parametrize("hash_count", [0, 2])
def test_kernel_against_numpy(size: int, count: int, hash_count: int) -> None:
    tables, windows = some_tables(size, hash_count=hash_count), some_windows(count)
    drawn = noise_for(windows, K)
    ngrams = ngrams_of(tables)
    u, z, y = (table[:].astype(float) for table in (tables.inputs, ngrams, tables.outputs))
    expected = train_reference(u, z, y, ngrams.ngrams, windows, drawn)
    assert train_with_kernel(tables, windows, drawn) == pytest.approx(expected, rel=1e-4)
    np.testing.assert_allclose(tables.inputs[:], u, atol=1e-3)
    np.testing.assert_allclose(ngrams[:], z, atol=2e-3 * (1 + hash_count))
    np.testing.assert_allclose(tables.outputs[:], y, atol=1e-3)


def test_an_update_of_a_word_follows_its_gradient() -> None:
    """Every row of a word gets the whole update of its vector, rate times the gradient of the objective."""
    tables = some_tables(20)
    windows = Windows(np.array([0, 1]), np.array([123], np.int32), np.array([7], np.int32), np.array([3]))
    drawn, ngrams = noise_for(windows, K), ngrams_of(tables)
    ids, starts = ngrams.ngrams
    rows = ids[starts[123] : starts[124]]
    assert len(set(rows.tolist())) == len(rows) > 3
    x = compose(tables.inputs[:].astype(float), ngrams[:].astype(float), ngrams.ngrams, 123)
    y = tables.outputs[:].astype(float)
    u_before, z_before = tables.inputs[:], ngrams[:]

    def loss(vector: np.ndarray) -> float:
        one = np.zeros((WORDS, 20))
        one[123] = vector
        return reference.train(one, y.copy(), windows, drawn, K, some_offsets(), 0.0)

    gradient = [(loss(x + h) - loss(x - h)) / 2e-5 for h in np.eye(20) * 1e-5]
    train_with_kernel(tables, windows, drawn)
    expected = -RATE * np.array(gradient)
    np.testing.assert_allclose(tables.inputs[:][123] - u_before[123], expected, atol=1e-5)
    for row in rows:
        np.testing.assert_allclose(ngrams[:][row] - z_before[row], expected, atol=1e-5)
    others = np.setdiff1d(np.arange(BUCKETS), rows)
    np.testing.assert_array_equal(ngrams[others], z_before[others])


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_deterministic_training_gives_the_same_bytes(threads: int) -> None:
    windows = some_windows(700)
    drawn = noise_for(windows, K)
    noise = Noise(drawn, K, some_offsets())
    results = []
    for _ in range(3):
        tables = some_tables(100, threads)
        inputs, outputs, ngrams = tables.inputs, tables.outputs, ngrams_of(tables)
        team = allocate_team(threads, K, 10)
        with ThreadPoolExecutor(threads) as pool:
            tasks = [
                pool.submit(
                    train_subwords_deterministic,
                    SubwordInputs(inputs.parts[thread], ngrams.parts[thread], *ngrams.ngrams, inputs.row_size),
                    outputs.parts[thread], windows, noise, np.float32(1e-3),
                    allocate_composed(WORDS, windows, inputs.row_size, BATCH),
                    (team, allocate_scratch(10), Worker(thread, threads, team.barrier)),
                )
                for thread in range(threads)
            ]  # fmt: skip
            losses = {task.result() for task in tasks}
        assert len(losses) == 1
        results.append((losses, inputs[:], ngrams[:], outputs[:]))
    for again in results[1:]:
        assert again[0] == results[0][0]
        for mine, expected in zip(again[1:], results[0][1:], strict=True):
            np.testing.assert_array_equal(mine, expected)


@pytest.fixture
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(textsource, "SEGMENT", 1000)


def trained(job: Job) -> list[np.ndarray]:
    for _ in job.trainer().run():
        pass
    return [job.tables.inputs[:], job.tables.outputs[:], ngrams_of(job.tables)[:]]


@pytest.mark.usefixtures("_small_segments")
@pytest.mark.parametrize("subwords", [SUBWORDS, FLORET])
@pytest.mark.parametrize("settings", [{"deterministic": True, "threads": 2}, {"threads": 1}])
def test_a_resumed_run_equals_an_uninterrupted_one(
    tmp_path: Path, settings: dict[str, Any], subwords: dict[str, Any]
) -> None:
    settings = settings | subwords
    whole = trained(job_of(some_text(), tmp_path, **settings))
    for mine, expected in zip(trained(resumed_job(tmp_path, **settings)), whole, strict=True):
        np.testing.assert_array_equal(mine, expected)


@pytest.mark.usefixtures("_small_segments")
@pytest.mark.parametrize("subwords", [SUBWORDS, FLORET])
def test_the_file_has_composed_vectors(tmp_path: Path, subwords: dict[str, Any]) -> None:
    job = job_of(some_text(), tmp_path, **subwords)
    u, _, z = trained(job)
    job.save(str(tmp_path / "vectors"))
    read = Vectors.load(str(tmp_path / "vectors"))
    assert read.subwords is not None
    ngrams = ngram_buckets(job.words, 2, 4, 500, subwords.get("hash_count", 0))
    expected = [compose(u, z, ngrams, word) for word in range(len(job.words))]
    np.testing.assert_allclose(read.vectors, expected, atol=1e-6)
    np.testing.assert_array_equal(read.subwords.known(read.words), read.vectors)
    np.testing.assert_array_equal(read.subwords.words, u)
    np.testing.assert_array_equal(read.subwords.ngrams, z)
    assert (read.subwords.lengths, read.arguments["subwords"], read.arguments["buckets"]) == ("2-4", "2-4", 500)
    assert read.subwords.hash_count == subwords.get("hash_count", 0)


def test_unused_buckets_stay_zero(tmp_path: Path) -> None:
    job = job_of(some_text(5000), tmp_path, **SUBWORDS)
    ngrams = trained(job)[2]
    used = np.unique(ngrams_of(job.tables).ngrams.ids)
    assert 0 < len(used) < 500
    assert not np.delete(ngrams, used, axis=0).any()
    assert np.abs(ngrams[used]).max(axis=1).min() > 0


def test_buckets_suit_the_vocabulary(tmp_path: Path) -> None:
    job = job_of(some_text(5000), tmp_path, subwords="2-4")
    distinct = {b"<%b>" % word for word in job.words}
    pieces = {word[i : i + n] for word in distinct for n in (2, 3, 4) for i in range(len(word) - n + 1)}
    assert job.settings.buckets == 2 * len(pieces)
    assert job.settings.stored()["buckets"] == 2 * len(pieces)
    job = job_of(some_text(5000), tmp_path, subwords="2-4", floret=True)
    assert job.settings.hash_count == 2
    assert job.settings.buckets == 2 * 2 * len(pieces | distinct)


def test_settings_without_subwords_are_stored_as_before() -> None:
    assert not {"subwords", "buckets", "hash_count"} & set(Settings().stored())


@pytest.mark.parametrize("floret", [False, True])
def test_unknown_words_resemble_those_with_the_same_ngrams(tmp_path: Path, floret: bool) -> None:
    """Words xa0, xa1, … occur together, and so do xb0, …: an unknown word xa99 belongs to the former."""
    random = np.random.default_rng(3)
    lines = []
    for _ in range(4000):
        stem, numbers = random.choice([b"aaa", b"bbb"]), random.integers(0, 20, 8)
        lines.append(b" ".join(b"x%bx%d" % (stem, number) for number in numbers.tolist()))
    job = job_of(b"\n".join(lines) + b"\n", tmp_path, subwords="3-5", floret=floret, epochs=5, lr=0.05, sample=0.0)
    trained(job)
    job.save(str(tmp_path / "vectors"))
    read = Vectors.load(str(tmp_path / "vectors"))
    assert read.subwords is not None
    vector = read.subwords.unknown(b"xaaax99")
    assert vector is not None
    cosines = read.vectors @ vector / np.linalg.norm(read.vectors, axis=1)
    same = np.array([b"aaa" in word for word in read.words])
    assert cosines[same].min() > cosines[~same].max()
    assert read.subwords.unknown(b"") is None


def test_words_with_common_ngrams_have_small_batches() -> None:
    apart = ngram_buckets(WordIndex.of([b"%c" % letter * 5 for letter in range(97, 123)]), 3, 3, 2**30)
    alike = ngram_buckets(WordIndex.of([b"prefix%c" % letter for letter in range(97, 123)]), 3, 3, 2**30)
    once = np.ones(26)
    assert coupling(apart, once) == pytest.approx((1 + 3 * 3 + 1) / 26 / 6)  # one of three n-grams occurs thrice
    assert coupling(alike, once) == pytest.approx((5 + 2 / 26) / 8)  # five of seven n-grams are in all words
    assert coupling(alike, once, own_rows=False) == pytest.approx((5 + 2 / 26) / 7)
    assert coupling(NGrams(np.empty(0, np.int32), np.zeros(4, np.int64)), np.ones(3)) == 0
    settings = Settings(lr=0.025, window=5)
    assert batch_windows(settings, 0.0) == MOST_WINDOWS
    assert batch_windows(settings, 0.1) == int(0.25 / 0.025 / 0.1 / 6)
    assert batch_windows(Settings(lr=0.025, window=5, threads=4), 0.1) == int(0.25 / 0.025 / 0.1 / 6 / 4)
    assert batch_windows(settings, 1.0) == 1


class TwoEqualRanks:
    """Ranks whose tables are the same: sums double."""

    size = 2

    def allreduce(self, values: np.ndarray) -> None:
        values *= 2


@pytest.mark.parametrize("hash_count", [0, 1])
def test_ranks_average_ngrams_by_frequency(hash_count: int) -> None:
    """All rows that occur, in the end; two equal ranks have taken the same step twice, and add it up."""
    tables = some_tables(10, hash_count=hash_count)
    frequencies = np.full(WORDS, 1e-9)
    averaging = Averaging(TwoEqualRanks(), tables, (frequencies, frequencies))  # type: ignore[arg-type]
    ngrams = ngrams_of(tables)
    before = ngrams[:]
    ngrams[np.arange(BUCKETS)] = before + 1
    averaging.after_round(10, 0.1)
    used = np.unique(ngrams.ngrams.ids)
    np.testing.assert_allclose(ngrams[used], before[used] + 2, rtol=1e-5)
    others = np.setdiff1d(np.arange(BUCKETS), used)
    np.testing.assert_array_equal(ngrams[others], before[others] + 1)
    kept = sum(each.common.nbytes + each.per_word.nbytes + each.pending.nbytes for each in averaging._tables)
    assert bytes_of_copies(tables, len(used)) == kept
