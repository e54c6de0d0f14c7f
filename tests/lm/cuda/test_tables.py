"""Grouping occurrences by table row, and summing their gradients."""

from dataclasses import dataclass

import numpy as np
import pytest

from neglm_cli.lm.cuda import tables
from neglm_cli.lm.cuda.arrays import SparseGradients, StepConfig
from neglm_cli.lm.cuda.gpu import Gpu
from neglm_cli.lm.cuda.tables import Chunks, OccurrenceLayout, Occurrences, RowIndex, Terms
from neglm_cli.lm.parameters import Shape
from neglm_cli.objective.noise import alias_table, draw_word, probabilities
from neglm_cli.objective.random import draw
from neglm_cli.settings.train_lm import Settings, dropout_threshold
from tests.lm.cuda.making import NOISE_KEY, NOISE_POSITION, batch_arrays, by_rows, positions, unit_masks

WORDS, K = 11, 3
WIDTH, EMBEDDING = 7, 5  # values of a row of both tables; an input has fewer
DROPOUT = 0.3


@dataclass(frozen=True)
class Case:
    """A minibatch of `steps` time steps; the largest has `most_steps`."""

    batch: int
    steps: int
    most_steps: int
    sharing: str = "token"
    blocks: int = 1

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
    Case(30, 7, 8, blocks=2),
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
        self.occurrences = Occurrences(*(gpu.zeros(self.total, np.int32) for _ in Occurrences._fields))
        self.index = RowIndex(*(gpu.zeros(2 * WORDS, np.int32) for _ in range(2)))
        chunks = most + self.total // tables.CHUNK
        self.chunks = Chunks(*(gpu.zeros(size, np.int32) for size in (most, chunks, chunks)))
        self.tally = gpu.zeros(3, np.int32)
        self.gradients = SparseGradients(
            gpu.zeros(most, np.int32), gpu.zeros(2, np.int32), gpu.upload(np.full((most, WIDTH), 1e30, np.float32))
        )
        rows = self.gradients.rows
        gpu.launch(
            tables.list_occurrences, case.blocks, batch=self.batch, config=StepConfig(case.batch, case.steps),
            alias_table=gpu.upload(NOISE), layout=self.layout, occurrences=self.occurrences, index=self.index,
            rows=rows, tally=self.tally,
        )  # fmt: skip
        gpu.launch(
            tables.scan_rows, case.blocks, tally=self.tally, row_counts=self.index.counts, rows=rows,
            chunks=self.chunks,
        )  # fmt: skip
        gpu.launch(
            tables.order_occurrences, case.blocks, occurrences=self.occurrences, index=self.index,
            row_start=self.chunks.row_start, gradients=self.gradients, tally=self.tally, layout=self.layout,
        )  # fmt: skip

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
    row, _, order, _ = map(gpu.download, it.occurrences)
    row_counts, slots = map(gpu.download, it.index)
    row_start, chunk_slot, chunk_start = map(gpu.download, it.chunks)
    np.testing.assert_array_equal(row, expected)
    touched, counts = np.unique(expected[expected >= 0], return_counts=True)
    found, chunks = gpu.download(it.gradients.counts)
    rows = gpu.download(it.gradients.rows)[:found]
    assert sorted(rows) == touched.tolist()
    np.testing.assert_array_equal(row_counts[touched], counts)
    assert row_counts.sum() == counts.sum() == (expected >= 0).sum()
    np.testing.assert_array_equal(slots[rows], np.arange(found))
    assert not gpu.download(it.tally).any()
    pieces = []
    for slot, row_of_slot in enumerate(rows):
        first, count = row_start[slot], row_counts[row_of_slot]
        np.testing.assert_array_equal(sorted(order[first : first + count]), np.flatnonzero(expected == row_of_slot))
        pieces += [(slot, start) for start in range(first, first + count, tables.CHUNK)]
    assert sorted(zip(chunk_slot[:chunks], chunk_start[:chunks], strict=True)) == pieces


def test_some_row_has_several_chunks(gpu: Gpu) -> None:
    """Otherwise these tests would not cover chunks."""
    counts = gpu.download(Found(gpu, CASES[-1]).gradients.counts)
    assert counts[tables.CHUNKS] >= counts[tables.ROWS] + 2


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dropout", [0.0, DROPOUT])
def test_gradients_of_a_row_are_summed(gpu: Gpu, case: Case, dropout: float) -> None:
    it = Found(gpu, case)
    shared = case.sharing != "token"
    random = np.random.default_rng(1)
    height = 2 * case.capacity + (case.noise_words if shared else 0)
    source = random.standard_normal((height, WIDTH)).astype(np.float32)
    factors = random.standard_normal(2 * case.capacity + case.capacity * K).astype(np.float32)
    gpu.launch(
        tables.gather_gradients, case.blocks, gradients=it.gradients, row_counts=it.index.counts, chunks=it.chunks,
        occurrences=it.occurrences, terms=Terms(gpu.upload(factors), gpu.upload(source)), layout=it.layout,
        batch=it.batch, config=StepConfig(case.batch, case.steps, dropout_threshold(dropout)),
    )  # fmt: skip
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
    found = counts[tables.ROWS]
    np.testing.assert_allclose(values[:found], expected[rows[:found]], rtol=1e-4, atol=2e-5)


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
