"""Rows of the tables: every place finds its row, and every row the gradients of its places."""

from dataclasses import dataclass

import numpy as np
import pytest

from neglm_cli.lm import reference
from neglm_cli.lm.cuda import rows
from neglm_cli.lm.cuda.gpu import Gpu
from neglm_cli.objective.noise import alias_table, draw_word, probabilities
from neglm_cli.objective.random import draw
from tests.lm.cuda.making import EPOCH, NOISE_KEY, NOISE_PLACE, SEED, by_rows, head, packed, positions

WORDS, K = 11, 3
WIDTH, EMBEDDING = 7, 5  # numbers of a row of both tables; an input has fewer
DROPOUT = 0.3


@dataclass(frozen=True)
class Case:
    """`steps` of the `room_steps` that there is room for."""

    batch: int
    steps: int
    room_steps: int
    sharing: str = "token"
    blocks: int = 1

    @property
    def number(self) -> int:
        return self.batch * self.steps

    @property
    def room(self) -> int:
        return self.batch * self.room_steps

    @property
    def group_rows(self) -> int:
        return {"token": 1, "step": self.batch, "batch": self.room}[self.sharing]

    @property
    def noise_places(self) -> int:
        return self.room // self.group_rows * K

    def noise(self) -> np.ndarray:
        """(groups, K), from the definition."""
        if self.sharing == "token":
            places = by_rows(positions(self.batch, self.steps))
        else:
            places = NOISE_PLACE + np.arange(-(-self.number // self.group_rows), dtype=np.uint64)
        bits = draw(draw(np.array([NOISE_KEY]), places)[:, None], np.arange(K, dtype=np.uint64))
        return np.array([draw_word(NOISE, b) for b in bits.reshape(-1)]).astype(np.int64).reshape(-1, K)


NOISE = alias_table(probabilities(np.arange(1, WORDS + 1), 1.0))
CASES = [
    Case(3, 4, 4), Case(1, 1, 1), Case(3, 2, 5, blocks=2), Case(5, 3, 4, "step"), Case(5, 3, 4, "batch", blocks=3),
    Case(30, 7, 8, blocks=2),
]  # fmt: skip


class Found:
    """What the kernels leave of a minibatch."""

    def __init__(self, gpu: Gpu, case: Case) -> None:
        self.gpu, self.case = gpu, case
        random = np.random.default_rng(case.number)
        self.inputs, self.targets = random.geometric(0.5, (2, case.batch, case.steps)) % WORDS
        self.places = 2 * case.room + case.noise_places
        most = min(self.places, 2 * WORDS)
        self.words, self.head = gpu.upload(packed(self.inputs, self.targets, case.room)), gpu.upload(head())
        self.row_of, self.rank, self.order = (gpu.zeros(self.places, np.int32) for _ in range(3))
        self.counts, self.slot_of = (gpu.zeros(2 * WORDS, np.int32) for _ in range(2))
        self.distinct, self.starts = (gpu.zeros(most, np.int32) for _ in range(2))
        chunks = most + self.places // rows.CHUNK
        self.chunk_slot, self.chunk_start = (gpu.zeros(chunks, np.int32) for _ in range(2))
        self.tally, self.found = gpu.zeros(1, np.int32), gpu.zeros(2, np.int32)
        self.gradients = gpu.upload(np.full((most, WIDTH), 1e30, np.float32))
        gpu.launch(
            rows.list_places, case.blocks, gpu.upload(NOISE), self.words, self.head, self.row_of, self.rank,
            self.counts, self.slot_of, self.distinct, self.tally, self.places, case.room, case.number, case.batch, K,
            case.group_rows, int(case.sharing != "token"), WORDS,
        )  # fmt: skip
        gpu.launch(
            rows.start_rows, 1, self.tally, self.counts, self.distinct, self.found, self.starts, self.chunk_slot,
            self.chunk_start,
        )  # fmt: skip
        gpu.launch(
            rows.order_places, case.blocks, self.row_of, self.rank, self.counts, self.slot_of, self.starts, self.order,
            self.gradients, self.places,
        )  # fmt: skip

    def expected_rows(self) -> np.ndarray:
        """Of all places; -1 where there is nothing."""
        expected = np.full(self.places, -1)
        room, number = self.case.room, self.case.number
        expected[:number] = by_rows(self.inputs)
        expected[room : room + number] = WORDS + by_rows(self.targets)
        noise = WORDS + self.case.noise().reshape(-1)
        expected[2 * room : 2 * room + noise.size] = noise
        return expected

    def host(self, name: str) -> np.ndarray:
        return self.gpu.download(getattr(self, name))


@pytest.mark.parametrize("case", CASES)
def test_every_row_has_its_places(gpu: Gpu, case: Case) -> None:
    it = Found(gpu, case)
    expected = it.expected_rows()
    np.testing.assert_array_equal(it.host("row_of"), expected)
    touched, counts = np.unique(expected[expected >= 0], return_counts=True)
    found, chunks = it.host("found")
    distinct = it.host("distinct")[:found]
    assert sorted(distinct) == touched.tolist()
    np.testing.assert_array_equal(it.host("counts")[touched], counts)
    assert it.host("counts").sum() == counts.sum()
    np.testing.assert_array_equal(it.host("slot_of")[distinct], np.arange(found))
    assert it.host("tally")[0] == 0
    starts, order, pieces = it.host("starts"), it.host("order"), []
    assert sum(counts) == (expected >= 0).sum()
    for slot, row in enumerate(distinct):
        first, count = starts[slot], it.host("counts")[row]
        np.testing.assert_array_equal(sorted(order[first : first + count]), np.flatnonzero(expected == row))
        pieces += [(slot, start) for start in range(first, first + count, rows.CHUNK)]
    assert list(zip(it.host("chunk_slot")[:chunks], it.host("chunk_start")[:chunks], strict=True)) == pieces


def test_there_is_a_row_with_several_chunks(gpu: Gpu) -> None:
    """Else these tests would say less."""
    it = Found(gpu, CASES[-1])
    assert it.host("found")[rows.CHUNKS] >= it.host("found")[rows.FOUND] + 2


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dropout", [0.0, DROPOUT])
def test_gradients_of_a_row_are_added_up(gpu: Gpu, case: Case, dropout: float) -> None:
    it = Found(gpu, case)
    shared = case.sharing != "token"
    random = np.random.default_rng(1)
    height = 2 * case.room + (case.noise_places if shared else 0)
    source = random.standard_normal((height, WIDTH)).astype(np.float32)
    factors = random.standard_normal(2 * case.room + case.room * K).astype(np.float32)
    gpu.launch(
        rows.gather, case.blocks, it.distinct, it.counts, it.found, it.starts, it.chunk_slot, it.chunk_start, it.order,
        gpu.upload(factors), gpu.upload(source), it.gradients, it.head, case.room, case.batch, EMBEDDING, K,
        int(shared), round(dropout * 65536),
    )  # fmt: skip
    masks = reference.dropout_masks([EMBEDDING, 1], positions(case.batch, case.room_steps), dropout, SEED, EPOCH)[0]
    parts = np.zeros((it.places, WIDTH))
    parts[: case.room, :EMBEDDING] = by_rows(masks) * source[: case.room, :EMBEDDING]
    parts[case.room : 2 * case.room] = factors[case.room : 2 * case.room, None] * source[case.room : 2 * case.room]
    if shared:
        parts[2 * case.room :] = source[2 * case.room :]
    else:
        y = np.repeat(source[case.room :], K, axis=0)
        parts[2 * case.room :] = factors[2 * case.room :, None] * y
    expected = np.zeros((2 * WORDS, WIDTH))
    places = it.expected_rows()
    np.add.at(expected, places[places >= 0], parts[places >= 0])
    found = it.host("found")[rows.FOUND]
    np.testing.assert_allclose(
        it.host("gradients")[:found], expected[it.host("distinct")[:found]], rtol=1e-4, atol=2e-5
    )


@pytest.mark.parametrize("dropout", [0.0, DROPOUT])
def test_look_up(gpu: Gpu, dropout: float) -> None:
    batch, steps = 3, 4
    random = np.random.default_rng(0)
    table = random.standard_normal((2 * WORDS, WIDTH)).astype(np.float32)
    inputs, targets = random.integers(0, WORDS, (2, batch, steps))
    xh = gpu.upload(np.full((batch * steps + 1, EMBEDDING + 4), -1, np.float32))
    gpu.launch(
        rows.look_up, batch * steps, gpu.upload(table), gpu.upload(packed(inputs, targets)), gpu.upload(head()), xh,
        batch, EMBEDDING, round(dropout * 65536),
    )  # fmt: skip
    masks = reference.dropout_masks([EMBEDDING, 1], positions(batch, steps), dropout, SEED, EPOCH)[0]
    expected = np.full((batch * steps + 1, EMBEDDING + 4), -1.0)
    expected[:-1, :EMBEDDING] = by_rows(table[inputs, :EMBEDDING] * masks)
    np.testing.assert_allclose(gpu.download(xh), expected, rtol=1e-6)


@pytest.mark.parametrize("end", [-1, 4])
def test_carry(gpu: Gpu, end: int) -> None:
    """The state moves to the front; but not into a row whose first word begins with none."""
    batch, before, inputs, units = 5, 10, 2, 37
    random = np.random.default_rng(0)
    xh = random.standard_normal((before + batch, inputs + 1 + units)).astype(np.float32)
    c = random.standard_normal((before + batch, units)).astype(np.float32)
    words = np.array([[4, 0], [1, 4], [4, 4], [0, 0], [3, 1]])
    kept = (words[:, :1] != end).astype(np.float32)
    there, memory = gpu.upload(xh), gpu.upload(c)
    gpu.launch(
        rows.carry, batch, there, memory, gpu.upload(packed(words, words)), before, words.size, batch, inputs, units,
        end,
    )  # fmt: skip
    xh[:batch, inputs + 1 :] = kept * xh[before:, inputs + 1 :]
    c[:batch] = kept * c[before:]
    np.testing.assert_array_equal(gpu.download(there), xh)
    np.testing.assert_array_equal(gpu.download(memory), c)
