"""A GPU as a device: what goes to it, what comes from it, and when."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np

from neglm_cli.lm.cuda import lstm
from neglm_cli.lm.cuda.functions import KEYS
from neglm_cli.lm.cuda.gpu import Array, Gpu, Signal
from neglm_cli.lm.cuda.network import Network, States, Text
from neglm_cli.lm.cuda.optimise import LOSS, NORM
from neglm_cli.lm.cuda.product import Multiplier, Part, Tiled
from neglm_cli.lm.cuda.training import Scorings, Training, Weights, weights, width_of
from neglm_cli.lm.device import Finished, Minibatch, Pending, Scores, StepResult, Tensors, gather_rows
from neglm_cli.lm.parameters import Layer, Parameters
from neglm_cli.lm.settings import Settings
from neglm_cli.lm.trainer import QUEUED
from neglm_cli.objective.losses import LOSSES, logit_offsets, train_offsets
from neglm_cli.objective.noise import alias_table, probabilities
from neglm_cli.objective.random import DROPOUT, NOISE, draw, stream
from neglm_cli.scale.ranks import ALONE, Ranks, shares

SAMPLED_ROWS = 64  # of which log Z is looked at while training
ROWS_AT_ONCE = 4096
S32 = np.uint64(32)


class Parcel:
    """Staging buffers for a minibatch: what is sent in one copy, and what comes back.

    They are used again only when `done` has passed. Until the sender sets it, that is all work launched so far."""

    def __init__(self, gpu: Gpu, number: int, layers: int) -> None:
        size = KEYS + layers + 1
        self._gpu = gpu
        self._host = gpu.pinned(size + number, np.uint64)
        self._there = gpu.zeros(size + number, np.uint64)
        self.head, self.words = self._there[:size], self._there[size:]
        self.record = gpu.pinned(2, np.float64)
        self.done: Signal = gpu

    def send(self, inputs: np.ndarray, targets: np.ndarray, numbers: list[int], keys: np.ndarray) -> None:
        """inputs, targets: (B, T)."""
        self.done.synchronize()
        self.done = self._gpu
        host = self._host
        host[:KEYS] = numbers
        host[KEYS : KEYS + len(keys)] = keys
        words = inputs.T.astype(np.uint64) | (targets.T.astype(np.uint64) << S32)
        host[len(self.head) : len(self.head) + words.size] = words.reshape(-1)
        self._gpu.copy_in(self._there, host)


class PendingMinibatch:
    """A minibatch under way. Its result is taken out of the staging buffer before that is used again."""

    def __init__(self, done: Signal, record: np.ndarray, words: int) -> None:
        self._done, self._record, self._words = done, record, words
        self._trained: StepResult | None = None

    def result(self) -> StepResult:
        if self._trained is None:
            self._done.synchronize()
            self._trained = StepResult(float(self._record[LOSS]), self._words, float(self._record[NORM]))
        return self._trained

    def synchronize(self) -> None:
        self.result()


class DeviceRows:
    """Rows of a table on their way to a file, some at a time."""

    def __init__(self, gpu: Gpu, table: Array, first: int, count: int, width: int) -> None:
        self.shape = (count, width)
        self.dtype = np.dtype(np.float32)
        self._gpu, self._table, self._first = gpu, table, first

    def blocks(self) -> Iterator[np.ndarray]:
        count, width = self.shape
        for start in range(self._first, self._first + count, ROWS_AT_ONCE):
            end = min(start + ROWS_AT_ONCE, self._first + count)
            yield np.ascontiguousarray(self._gpu.download(self._table[start:end])[:, :width])


class CudaDevice:
    """A model with its counts, for scoring; `prepare_training` makes the arrays for training, too."""

    def __init__(
        self, parameters: Parameters, settings: Settings, counts: np.ndarray, end_of_line: int, gpu: Gpu,
        multiplier: Multiplier | None = None, steps: lstm.Steps = lstm.STEPS, ranks: Ranks = ALONE,
    ) -> None:  # fmt: skip
        self.shape = parameters.shape
        self.settings = settings
        self._ranks = ranks
        starts = shares(settings.batch, ranks.size)
        self._rows = slice(starts[ranks.rank], starts[ranks.rank + 1])  # of the batch: those of this process
        self._batch = self._rows.stop - self._rows.start
        self.gpu = gpu
        self.multiplier = multiplier or Tiled(gpu)
        self.steps = steps
        self._end = end_of_line if settings.reset_at_eos else -1
        self._distribution = probabilities(counts, settings.noise_alpha)
        self.bias = float(LOSSES[settings.loss].bias)
        self.weights = weights(gpu, self.shape)
        self.logit_offsets = gpu.upload(self._offsets(logit_offsets))
        self._fill_tables(self.weights, parameters.embedding, parameters.output)
        for layer, values in enumerate(parameters.layers):
            self._fill_layer(self.weights, layer, values)

    def _offsets(self, function: Callable[..., np.ndarray]) -> np.ndarray:
        settings = self.settings
        return function(settings.loss, self._distribution, settings.k, settings.log_z).astype(np.float32)

    # --- training -------------------------------------------------------------------------------------

    def prepare_training(self) -> None:
        gpu, settings, shape = self.gpu, self.settings, self.shape
        network = Network(gpu, self.multiplier, shape, self.weights.views, self._batch, self.steps)
        here = replace(settings, batch=self._batch)
        noise, offsets = gpu.upload(alias_table(self._distribution)), gpu.upload(self._offsets(train_offsets))
        self._training = Training(
            gpu, self.multiplier, network, shape, here, self.weights, noise, offsets, self.bias, self._ranks,
            settings.batch,
        )  # fmt: skip
        self._parcels = [Parcel(gpu, self._batch * settings.bptt, shape.layers) for _ in range(QUEUED + 2)]
        self._sent = 0

    def train(self, minibatch: Minibatch) -> Pending:
        settings, positions = self.settings, minibatch.positions[self._rows]
        batch, steps = positions.shape
        parcel = self._parcels[self._sent % len(self._parcels)]
        self._sent += 1
        first = int(positions[0, 0])
        stride = int(positions[1, 0]) - first if batch > 1 else 0
        place = minibatch.number * settings.bptt if settings.noise == "step" else minibatch.number
        dropout = np.array([stream(settings.seed, DROPOUT, minibatch.epoch)])
        keys = draw(dropout, np.arange(self.shape.layers + 1, dtype=np.uint64))
        noise_key = int(stream(settings.seed, NOISE, minibatch.epoch))
        inputs, targets = minibatch.inputs[self._rows], minibatch.targets[self._rows]
        parcel.send(inputs, targets, [first, stride, noise_key, place], keys)
        text = Text(parcel.words, parcel.head, batch, steps, settings.dropout_threshold, self._end)
        self._training.train(text, minibatch.step, minibatch.rate, minibatch)
        done = self.gpu.copy_out(self._training.record, parcel.record)
        parcel.done = pending = PendingMinibatch(done, parcel.record, minibatch.inputs.size)
        if self._ranks.size == 1:
            return pending
        mine = pending.result()
        return Finished(mine._replace(loss=self._training.loss(mine.loss)))

    def log_z(self) -> np.ndarray:
        hidden, number = self.shape.hidden, min(SAMPLED_ROWS, self._batch)
        y = np.zeros((number, width_of(self.shape)), np.float32)
        y[:, :hidden] = self._carried()[0][-1, :number]
        y[:, hidden] = self.bias
        scorings = Scorings(self.gpu, self.multiplier, self.shape, number)
        no_targets = self.gpu.zeros(number, np.uint64)
        scorings.normalise(Part(self.gpu.upload(y)), number, self.weights.table, self.logit_offsets, no_targets)
        return scorings.log_z(number)

    def flush_lazy_updates(self, step: int, rate: float) -> None:
        if self.settings.exact:
            count = 2 * self.shape.words
            every = self.gpu.upload(np.arange(count, dtype=np.int32))
            found = self.gpu.upload(np.array([count, 0], np.int32))
            self._training.catch_up(every, found, step + 1, rate)
            self.gpu.synchronize()  # before these two arrays are freed

    # --- scoring --------------------------------------------------------------------------------------

    def scorer(self, rows: int) -> "CudaScorer":
        return CudaScorer(self, rows, self._end)

    # --- files ----------------------------------------------------------------------------------------

    def parameters(self) -> Tensors:
        return self._named("", self.weights)

    def state(self) -> Tensors:
        training, words = self._training, self.shape.words
        moved = self.gpu.download(training.moved)
        tensors: Tensors = {
            "moved": moved.reshape(2, words) if self.settings.moments > 1 else np.zeros((2, 1), np.int32)
        }
        for number, moments in enumerate(self._moments()):
            tensors |= self._named(f"moment.{number}.", moments)
        tensors["hidden"], tensors["cell"] = (gather_rows(self._ranks, array) for array in self._carried())
        return tensors

    def restore(self, tensors: Mapping[str, np.ndarray]) -> None:
        gpu, training, states = self.gpu, self._training, self._training.states
        for prefix, values in [("", self.weights), *((f"moment.{n}.", m) for n, m in enumerate(self._moments()))]:
            self._fill(prefix, values, tensors)
        if self.settings.moments > 1:
            gpu.write(training.moved, tensors["moved"].reshape(-1))
        states.before = self._batch * self.settings.bptt
        for layer, inputs in enumerate(self.shape.inputs):
            state = np.zeros((self._batch, inputs + 1 + self.shape.hidden), np.float32)
            state[:, inputs] = 1
            state[:, inputs + 1 :] = tensors["hidden"][layer, self._rows]
            gpu.write(states.xh[layer][states.before :], state)
            gpu.write(states.c[layer][states.before :], tensors["cell"][layer, self._rows])

    def _carried(self) -> tuple[np.ndarray, np.ndarray]:
        """The state behind the last minibatch, (L, B, H): h and c."""
        states, batch = self._training.states, self._batch
        last = slice(states.before, states.before + batch)
        hidden = [
            self.gpu.download(xh[last])[:, inputs + 1 :]
            for xh, inputs in zip(states.xh, self.shape.inputs, strict=True)
        ]
        return np.stack(hidden), np.stack([self.gpu.download(c[last]) for c in states.c])

    def _moments(self) -> list[Weights]:
        """Those that the optimizer keeps."""
        return [self._training.squares, self._training.means][: self.settings.moments]

    def _named(self, prefix: str, values: Weights) -> Tensors:
        shape, gpu = self.shape, self.gpu
        words, hidden = shape.words, shape.hidden
        output = DeviceRows(gpu, values.table, words, words, hidden + 1)
        tensors: Tensors = {
            f"{prefix}embedding": DeviceRows(gpu, values.table, 0, words, shape.embedding),
            f"{prefix}output": DeviceRows(gpu, values.table, words, words, hidden),
            f"{prefix}output_bias": np.concatenate([block[:, hidden] for block in output.blocks()]),
        }
        for layer, inputs in enumerate(shape.inputs):
            stacked = gpu.download(values.views[layer])
            tensors[f"{prefix}lstm.{layer}.input"] = stacked[:inputs]
            tensors[f"{prefix}lstm.{layer}.recurrent"] = stacked[inputs + 1 :]
            tensors[f"{prefix}lstm.{layer}.bias"] = stacked[inputs]
        return tensors

    def _fill(self, prefix: str, values: Weights, tensors: Mapping[str, np.ndarray]) -> None:
        output = np.concatenate([tensors[f"{prefix}output"], tensors[f"{prefix}output_bias"][:, None]], axis=1)
        self._fill_tables(values, tensors[f"{prefix}embedding"], output)
        for layer in range(self.shape.layers):
            parts = Layer(*(tensors[f"{prefix}lstm.{layer}.{part}"] for part in Layer._fields))
            self._fill_layer(values, layer, parts)

    def _fill_tables(self, values: Weights, embedding: np.ndarray, output: np.ndarray) -> None:
        """From rows without padding, or with their own."""
        words, width = self.shape.words, width_of(self.shape)
        for table, first, used in ((embedding, 0, self.shape.embedding), (output, words, self.shape.hidden + 1)):
            for start in range(0, words, ROWS_AT_ONCE):
                end = min(start + ROWS_AT_ONCE, words)
                block = np.zeros((end - start, width), np.float32)
                block[:, :used] = table[start:end, :used]
                self.gpu.write(values.table[first + start : first + end], block)

    def _fill_layer(self, values: Weights, layer: int, parts: Layer) -> None:
        self.gpu.write(values.views[layer], np.concatenate([parts.input, parts.bias[None], parts.recurrent]))

    def close(self) -> None:
        self.gpu.synchronize()


class CudaScorer:
    """One row of text, with a state of its own and the device's parameters."""

    def __init__(self, device: CudaDevice, steps: int, end: int) -> None:
        gpu, shape = device.gpu, device.shape
        self._device, self._end = device, end
        self._network = Network(gpu, device.multiplier, shape, device.weights.views, 1, device.steps)
        self._states = States(gpu, shape, 1, steps)
        self._scorings = Scorings(gpu, device.multiplier, shape, steps)
        self._parcels = cycle([Parcel(gpu, steps, shape.layers) for _ in range(2)])  # one read while one is filled
        y = np.zeros((steps, width_of(shape)), np.float32)
        y[:, shape.hidden] = device.bias
        self._y = Part(gpu.upload(y))
        self._no_keys = np.zeros(shape.layers + 1, np.uint64)

    def score(self, inputs: np.ndarray, targets: np.ndarray) -> Scores:
        device, number, table = self._device, inputs.size, self._device.weights.table
        batch, steps = inputs.shape
        _, text = self._read(inputs, targets)
        self._scorings.normalise(self._y, number, table, device.logit_offsets, text.words)
        log_z = self._scorings.log_z(number)
        target_scores = device.gpu.download(self._scorings.target_scores)[:number]
        return Scores((target_scores - log_z).reshape(steps, batch).T, log_z.reshape(steps, batch).T)

    def advance(self, inputs: np.ndarray) -> None:
        parcel, _ = self._read(inputs, inputs)
        parcel.done = self._device.gpu.event()

    def _read(self, inputs: np.ndarray, targets: np.ndarray) -> tuple[Parcel, Text]:
        parcel, (batch, steps) = next(self._parcels), inputs.shape
        parcel.send(inputs, targets, [0] * KEYS, self._no_keys)
        text = Text(parcel.words, parcel.head, batch, steps, 0, self._end)
        self._network.forward(self._device.weights.table, text, self._states, self._y)
        return parcel, text


def describe(plan: Any) -> str:
    """How steps are made, for reports."""
    return "a launch for each step" if plan is None else f"one launch for all steps, {plan.blocks} blocks"
