"""Grouping occurrences by table row, and summing their gradients."""

from dataclasses import dataclass

import numpy as np
import pytest

from neglm_cli.lm.cuda import tables
from neglm_cli.lm.cuda.arrays import SparseGradients, StepConfig
from neglm_cli.lm.cuda.gpu import Gpu, Grid
from neglm_cli.lm.cuda.occurrences import CHUNK, CHUNKS, ROWS, OccurrenceIndex, OccurrenceLayout
from neglm_cli.lm.cuda.tables import Terms
from neglm_cli.lm.parameters import Shape
from neglm_cli.objective.noise import alias_table, draw_word, probabilities
from neglm_cli.objective.random import draw
from neglm_cli.settings.train_lm import Settings, dropout_threshold
from tests.lm.cuda.making import NOISE_KEY, NOISE_POSITION, batch_arrays, by_rows, positions, unit_masks

WORDS, K = 11, 3
WIDTH, EMBEDDING = 32, 27  # values of a row of both tables; an input has fewer
DROPOUT = 0.3


@dataclass(frozen=True)
class Case:
    """A minibatch of `steps` time steps; the largest has `most_steps`."""

    batch: int
    steps: int
    most_steps: int
    sharing: str = "token"
    blocks: int = 1  # of the sums
    tile: int = 1024  # see `occurrences.sort_tiles`

    @property
    def number(self) -> int:
        return self.batch * self.steps

    @property
    def capacity(self) -> int:
        return self.batch * self.most_steps

    @property
    def group_rows(self) -> int:
        return {"token": 1, "step": self.batch, "batch": self.capacity}[self.sharing]

    @property
    def noise_words(self) -> int:
        return self.capacity // self.group_rows * K

    def noise(self) -> np.ndarray:
        """Draw noise words (groups, K), by definition."""
        if self.sharing == "token":
            noise_positions = by_rows(positions(self.batch, self.steps))
        else:
            noise_positions = NOISE_POSITION + np.arange(-(-self.number // self.group_rows), dtype=np.uint64)
        bits = draw(draw(np.array([NOISE_KEY]), noise_positions)[:, None], np.arange(K, dtype=np.uint64))
        return np.array([draw_word(NOISE, b) for b in bits.reshape(-1)]).astype(np.int64).reshape(-1, K)


NOISE = alias_table(probabilities(np.arange(1, WORDS + 1), 1.0))
CASES = [
    Case(3, 4, 4), Case(1, 1, 1), Case(3, 2, 5, blocks=2), Case(5, 3, 4, "step"), Case(5, 3, 4, "batch", blocks=3),
    Case(30, 7, 8, blocks=2, tile=4), Case(13, 5, 6, tile=16),
]  # fmt: skip


class Found:
    """Results of the kernels for a minibatch."""

    def __init__(self, gpu: Gpu, case: Case) -> None:
        self.gpu, self.case = gpu, case
        random = np.random.default_rng(case.number)
        self.inputs, self.targets = random.geometric(0.5, (2, case.batch, case.steps)) % WORDS
        self.total = 2 * case.capacity + case.noise_words
        most = min(self.total, 2 * WORDS)
        shared = int(case.sharing != "token")
        self.layout = OccurrenceLayout(self.total, case.capacity, K, case.group_rows, shared, WORDS, EMBEDDING)
        self.batch = batch_arrays(gpu, self.inputs, self.targets, case.capacity)
        self.gradients = SparseGradients(
            gpu.zeros(most, np.int32), gpu.zeros(2, np.int32), gpu.upload(np.full((most, WIDTH), 1e30, np.float32))
        )
        self.index = OccurrenceIndex(gpu, self.layout, most, case.tile)
        self.index.find(self.batch, StepConfig(case.batch, case.steps), gpu.upload(NOISE), self.gradients)

    def expected_rows(self) -> np.ndarray:
        """Return the row of each occurrence; -1 if the minibatch lacks it."""
        expected = np.full(self.total, -1)
        capacity, number = self.case.capacity, self.case.number
        expected[:number] = by_rows(self.inputs)
        expected[capacity : capacity + number] = WORDS + by_rows(self.targets)
        noise = WORDS + self.case.noise().reshape(-1)
        expected[2 * capacity : 2 * capacity + noise.size] = noise
        return expected


@pytest.mark.parametrize("case", CASES)
def test_every_row_has_its_occurrences(gpu: Gpu, case: Case) -> None:
    it = Found(gpu, case)
    expected = it.expected_rows()
    row, order, _ = map(gpu.download, it.index.occurrences)
    row_start, chunk_slot, chunk_start = map(gpu.download, it.index.chunks)
    np.testing.assert_array_equal(row, expected)
    touched, counts = np.unique(expected[expected >= 0], return_counts=True)
    found, chunks = gpu.download(it.gradients.counts)
    np.testing.assert_array_equal(gpu.download(it.gradients.rows)[:found], touched)
    np.testing.assert_array_equal(np.diff(row_start[: found + 1]), counts)
    absent = (expected < 0).sum()
    np.testing.assert_array_equal(order[: counts.sum()], np.argsort(expected, kind="stable")[absent:])
    pieces = [
        (slot, start)
        for slot in range(found)
        for start in range(row_start[slot], row_start[slot + 1], CHUNK)
    ]  # fmt: skip
    assert list(zip(chunk_slot[:chunks], chunk_start[:chunks], strict=True)) == pieces


def test_some_row_has_several_chunks(gpu: Gpu) -> None:
    """Otherwise these tests would not cover chunks."""
    counts = gpu.download(Found(gpu, CASES[5]).gradients.counts)
    assert counts[CHUNKS] >= counts[ROWS] + 2


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("dropout", "threads"), [(0.0, 4), (DROPOUT, 4), (DROPOUT, 2)])
def test_gradients_of_a_row_are_summed(gpu: Gpu, case: Case, dropout: float, threads: int) -> None:
    """In one pass over the columns, or in two."""
    it = Found(gpu, case)
    shared = case.sharing != "token"
    random = np.random.default_rng(1)
    height = 2 * case.capacity + (case.noise_words if shared else 0)
    source = random.standard_normal((height, WIDTH)).astype(np.float32)
    factors = random.standard_normal(it.total).astype(np.float32)
    if shared:
        factors[2 * case.capacity :] = 1
    sums = {
        "gradients": it.gradients, "chunks": it.index.chunks,
        "rest": gpu.upload(np.full((it.total // CHUNK + 1, WIDTH), 1e30, np.float32)),
    }  # fmt: skip
    gpu.launch(
        tables.gather_gradients, Grid(case.blocks, threads), **sums, occurrences=it.index.occurrences,
        terms=Terms(gpu.upload(factors), gpu.upload(source)), layout=it.layout, batch=it.batch,
        config=StepConfig(case.batch, case.steps, dropout_threshold(dropout)),
    )  # fmt: skip
    gpu.launch(tables.add_rest, case.blocks, **sums)
    masks = unit_masks([EMBEDDING, 1], case.batch, case.most_steps, dropout)[0]
    parts = np.zeros((it.total, WIDTH))
    parts[: case.capacity, :EMBEDDING] = by_rows(masks) * source[: case.capacity, :EMBEDDING]
    parts[case.capacity : 2 * case.capacity] = (
        factors[case.capacity : 2 * case.capacity, None] * source[case.capacity : 2 * case.capacity]
    )
    if shared:
        parts[2 * case.capacity :] = source[2 * case.capacity :]
    else:
        y = np.repeat(source[case.capacity :], K, axis=0)
        parts[2 * case.capacity :] = factors[2 * case.capacity :, None] * y
    expected = np.zeros((2 * WORDS, WIDTH))
    occurrences = it.expected_rows()
    np.add.at(expected, occurrences[occurrences >= 0], parts[occurrences >= 0])
    rows, counts, values = map(gpu.download, it.gradients)
    found = counts[ROWS]
    np.testing.assert_allclose(values[:found], expected[rows[:found]], rtol=1e-4, atol=2e-5)


def test_every_column_has_a_thread() -> None:
    for width in range(16, 8192, 16):
        threads = tables.gather_threads(width)
        assert width % (tables.COLUMNS * threads) == 0
        assert 1 <= threads <= tables.MOST_THREADS


@pytest.mark.parametrize("dropout", [0.0, DROPOUT])
def test_lookup(gpu: Gpu, dropout: float) -> None:
    batch, steps = 3, 4
    random = np.random.default_rng(0)
    table = random.standard_normal((2 * WORDS, WIDTH)).astype(np.float32)
    inputs, targets = random.integers(0, WORDS, (2, batch, steps))
    xh = gpu.upload(np.full((batch * steps + 1, EMBEDDING + 4), -1, np.float32))
    gpu.launch(
        tables.lookup, batch * steps, table=gpu.upload(table), batch=batch_arrays(gpu, inputs, targets),
        config=StepConfig(batch, steps, dropout_threshold(dropout)), x=xh, width=EMBEDDING,
    )  # fmt: skip
    masks = unit_masks([EMBEDDING, 1], batch, steps, dropout)[0]
    expected = np.full((batch * steps + 1, EMBEDDING + 4), -1.0)
    expected[:-1, :EMBEDDING] = by_rows(table[inputs, :EMBEDDING] * masks)
    np.testing.assert_allclose(gpu.download(xh), expected, rtol=1e-6)


@pytest.mark.parametrize("end", [-1, 4])
def test_carry_states(gpu: Gpu, end: int) -> None:
    """States are copied to the first rows, except where the state is reset."""
    batch, before, inputs, units = 5, 10, 2, 37
    random = np.random.default_rng(0)
    xh = random.standard_normal((before + batch, inputs + 1 + units)).astype(np.float32)
    c = random.standard_normal((before + batch, units)).astype(np.float32)
    words = np.array([[4, 0], [1, 4], [4, 4], [0, 0], [3, 1]])
    mask = (words[:, :1] != end).astype(np.float32)
    xh_on_gpu, c_on_gpu = gpu.upload(xh), gpu.upload(c)
    gpu.launch(
        tables.carry_states, batch, xh=xh_on_gpu, c=c_on_gpu, batch=batch_arrays(gpu, words, words),
        config=StepConfig(batch, 2, reset_word=end), last_rows=before, inputs=inputs,
    )  # fmt: skip
    xh[:batch, inputs + 1 :] = mask * xh[before:, inputs + 1 :]
    c[:batch] = mask * c[before:]
    np.testing.assert_array_equal(gpu.download(xh_on_gpu), xh)
    np.testing.assert_array_equal(gpu.download(c_on_gpu), c)


@pytest.mark.parametrize("tied", [False, True])
def test_a_minibatch_touches_fewer_rows_than_are_allocated(tied: bool) -> None:
    """The bound holds for noise words that are drawn, and is far below the number of draws."""
    words, text, draws = 20_000, 400, 40_000
    shape = Shape.of(words, Settings(tie=tied, hidden=4, embedding=4))
    noise = 1 / np.arange(1, words + 1)
    noise /= noise.sum()
    most = tables.most_rows(shape, text, draws, noise)
    random = np.random.default_rng(1)
    found = [len(np.unique(random.choice(words, draws, p=noise))) for _ in range(20)]
    assert max(found) + 2 * text <= most < 0.6 * words + 2 * text
    assert tables.most_rows(shape, text, 0, noise) == (2 * text if tied else text)
    assert tables.most_rows(shape, 10 * words, draws, noise) == (words if tied else 2 * words)
