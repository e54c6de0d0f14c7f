"""The processor as a device: its threads, and the arrays that they share."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from neglm_cli.lm.cpu import arrays, lstm
from neglm_cli.lm.cpu.optimise import ADAGRAD, ADAM, SGD, catch_up
from neglm_cli.lm.cpu.product import PANEL
from neglm_cli.lm.cpu.softmax import BLOCK, log_normalisers
from neglm_cli.lm.cpu.step import SHARED, SOFTMAX, TOKEN, Numbers, Sampling, score, train
from neglm_cli.lm.device import Minibatch, Scores, Tensors, Trained
from neglm_cli.lm.parameters import Layer, Parameters, padded
from neglm_cli.lm.settings import Settings
from neglm_cli.lm.tensors import Rows
from neglm_cli.objective.losses import LOSSES, logit_offsets, train_offsets
from neglm_cli.objective.noise import alias_table, probabilities
from neglm_cli.objective.random import DROPOUT, NOISE, draw, stream

KINDS = {"sgd": SGD, "adagrad": ADAGRAD, "adam": ADAM}
EPSILON = {"sgd": 0.0, "adagrad": 1e-8, "adam": 1e-8}
DROPOUT_UNITS = 1 << 16
SOFTMAX_ROOM = 1 << 24  # scores that are held at once, if rows are not more than that by themselves
SAMPLED_ROWS = 64  # of which log Z is looked at while training


class Team:
    """Threads that run the same kernel side by side. Each has a queue of its own: what is handed out while they work
    begins without anyone having to wake up."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.counter = np.zeros(8, np.int64)
        self._members = [ThreadPoolExecutor(1) for _ in range(threads)]

    def start(self, function: Callable[..., Any], *arguments: Any) -> list[Future[Any]]:
        """function(*arguments, thread, threads, counter) on all threads."""
        return [
            member.submit(function, *arguments, thread, self.threads, self.counter)
            for thread, member in enumerate(self._members)
        ]

    def run(self, function: Callable[..., Any], *arguments: Any) -> None:
        for future in self.start(function, *arguments):
            future.result()

    def close(self) -> None:
        for member in self._members:
            member.shutdown()


class PendingMinibatch:
    def __init__(self, parts: list[Future[Any]], words: int) -> None:
        self._parts = parts
        self._words = words

    def result(self) -> Trained:
        parts = [part.result() for part in self._parts]
        return Trained(sum(loss for loss, _ in parts), self._words, parts[0][1])


class CpuDevice:
    """A model with its counts, for scoring; `prepare_training` makes the arrays for training, too."""

    def __init__(self, parameters: Parameters, settings: Settings, counts: np.ndarray, end_of_line: int) -> None:
        shape = parameters.shape
        self.shape = shape
        self._settings = settings
        self._end_of_line = end_of_line
        self._noise = probabilities(counts, settings.noise_alpha)
        self._logit_offsets = self._offsets(logit_offsets)
        self._bias = np.float32(LOSSES[settings.loss].bias)
        self._team = Team(settings.threads)
        self._own = arrays.shares(shape, settings.threads)
        self._weights = arrays.packed_weights(parameters)

    def _offsets(self, function: Callable[..., np.ndarray]) -> np.ndarray:
        settings = self._settings
        return function(settings.loss, self._noise, settings.k, settings.log_z).astype(np.float32)

    # --- training -------------------------------------------------------------------------------------

    def prepare_training(self) -> None:
        settings, shape, threads = self._settings, self.shape, self._settings.threads
        batch, steps, k = settings.batch, settings.bptt, settings.k
        rows, width = batch * steps, padded(shape.hidden + 1)
        self._mode = SOFTMAX if settings.loss == "softmax" else TOKEN if settings.noise == "token" else SHARED
        self._group_rows = batch if settings.noise == "step" else rows
        groups = -(-rows // self._group_rows) if self._mode == SHARED else 0
        extra = groups * k
        places = {TOKEN: rows * (k + 1), SHARED: extra + rows, SOFTMAX: 1}[self._mode]
        at_once = min(rows, max(1, SOFTMAX_ROOM // shape.words)) if self._mode == SOFTMAX else 1
        blocks = -(-shape.words // BLOCK) if self._mode == SOFTMAX else 1
        source = arrays.zeros(rows + extra, width)
        source_of = np.repeat(np.arange(rows), k + 1) if self._mode == TOKEN else np.zeros(places)
        self._sampling = Sampling(
            alias_table(self._noise),
            self._offsets(train_offsets),
            np.zeros(places, np.int32),
            source,
            arrays.zeros(max(extra, 1), width),
            arrays.zeros(max(groups, 1) * -(-k // PANEL), width, PANEL),
            arrays.zeros(rows, -(-k // PANEL) * PANEL) if self._mode == SHARED else arrays.zeros(1, 1),
            arrays.zeros(blocks, at_once, BLOCK),
            arrays.zeros(blocks, at_once),
            arrays.zeros(threads, at_once, width),
        )
        tables = settings.optimizer != "sgd"
        self._states = arrays.states(shape, batch, steps, source[:rows])
        self._way = arrays.way(shape, batch, steps, self._own)
        self._scoring = arrays.scoring(shape, rows if self._mode == SOFTMAX else SAMPLED_ROWS, threads)
        self._inputs = arrays.touched(shape.words, rows, padded(shape.embedding), np.arange(rows), threads)
        self._outputs = arrays.touched(shape.words, places, width, source_of, threads)
        self._gradients = arrays.weights_like(self._weights, tables=False)
        if self._mode == SOFTMAX:
            self._gradients = self._gradients._replace(output=arrays.zeros(*self._weights.output.shape))
        self._squares = arrays.weights_like(self._weights, tables)
        self._means = arrays.weights_like(self._weights, settings.optimizer == "adam")
        words = shape.words if settings.optimizer == "adam" else 1
        self._moved = np.zeros((2, words), np.int32)
        self._back = arrays.transposed(shape, self._own)
        self._transpose()

    def _transpose(self) -> None:
        for layer in range(self.shape.layers):
            panels = self._weights.w.shape[1]
            back = self._back
            lstm.transpose(self._weights.w[layer], back.w[layer], back.w_starts, back.w_ends[layer], 0, panels)
            lstm.transpose(self._weights.u[layer], back.u[layer], back.u_starts, back.u_ends, 0, panels)

    def warm_up(self) -> None:
        """Load or compile the kernels, which takes a while: what is timed then is training."""
        nothing = np.empty((self._settings.batch, 0), np.int32)
        self.train(Minibatch(nothing, nothing, nothing.astype(np.uint64), 0, 0, 1, 0.0)).result()
        self.log_z()

    def train(self, minibatch: Minibatch) -> PendingMinibatch:
        settings = self._settings
        batch, steps = minibatch.inputs.shape
        numbers = Numbers(
            batch, steps, settings.embedding, self._mode, settings.k, max(min(self._group_rows, batch * steps), 1),
            self._dropped(), self._bias, np.float32(1 / batch), float(settings.clip), KINDS[settings.optimizer],
            settings.optimizer == "adam" and settings.adam == "exact", minibatch.step, float(minibatch.rate),
            np.float32(EPSILON[settings.optimizer]),
        )  # fmt: skip
        ids, targets, positions = (_by_step(array) for array in minibatch[:3])
        first_step = minibatch.number * settings.bptt
        noise_positions = {
            "token": positions,
            "step": np.arange(first_step, first_step + steps, dtype=np.uint64),
            "batch": np.array([minibatch.number], np.uint64),
        }[settings.noise]
        key = stream(settings.seed, DROPOUT, minibatch.epoch)
        keys = draw(np.array([key]), np.arange(self.shape.layers + 1, dtype=np.uint64))
        parts = self._team.start(
            train, self._weights, self._gradients, self._means, self._squares, self._moved, self._back, self._own,
            self._states, self._way, self._scoring, self._inputs, self._outputs, self._sampling, numbers,
            keys, stream(settings.seed, NOISE, minibatch.epoch), ids, targets, positions, noise_positions,
            self._kept(ids, batch),
        )  # fmt: skip
        return PendingMinibatch(parts, batch * steps)

    def _dropped(self) -> int:
        return round(self._settings.dropout * DROPOUT_UNITS)

    def _kept(self, ids: np.ndarray, batch: int) -> np.ndarray:
        """Which steps begin with the state that the last one left: all, or those that are not the first of a line."""
        kept = np.ones(len(ids) + batch, np.float32)
        if self._settings.reset_at_eos:
            kept[: len(ids)] = ids != self._end_of_line
        return kept

    def log_z(self) -> np.ndarray:
        rows = min(SAMPLED_ROWS, self._settings.batch)
        y = arrays.zeros(rows, self._states.y.shape[1])
        y[:, : self.shape.hidden] = self._states.h[-1, :rows, : self.shape.hidden]
        y[:, self.shape.hidden] = self._bias
        return self._normalisers(y, np.zeros(rows, np.int32), self._scoring)

    def _normalisers(self, y: np.ndarray, targets: np.ndarray, room: arrays.Scoring) -> np.ndarray:
        def work(thread: int, threads: int, counter: np.ndarray) -> None:
            log_normalisers(
                y, len(y), self._weights.output, self._logit_offsets, targets, self._own.blocks[thread],
                self._own.blocks[thread + 1], room.packed[thread], room.scores[thread], room.highest[thread],
                room.sums[thread], room.target_scores,
            )  # fmt: skip

        self._team.run(work)
        return _log_z(room, len(y))

    def finish_moves(self, step: int, rate: float) -> None:
        if self._settings.optimizer != "adam" or self._settings.adam != "exact":
            return
        every = np.arange(self.shape.words, dtype=np.int32)
        for table, means, squares, moved in (
            (self._weights.embedding, self._means.embedding, self._squares.embedding, self._moved[0]),
            (self._weights.output, self._means.output, self._squares.output, self._moved[1]),
        ):
            catch_up(table, means, squares, moved, every, len(every), step + 1, rate, np.float32(EPSILON["adam"]))

    def memory(self) -> dict[str, int]:
        """Bytes of all arrays, by what they are for."""
        return {
            "parameters": _bytes(self._weights),
            "optimiser": _bytes(self._squares) + _bytes(self._means) + _bytes(self._moved),
            "gradients": _bytes(self._gradients) + _bytes(self._inputs) + _bytes(self._outputs),
            "minibatch": _bytes(self._states) + _bytes(self._way) + _bytes(self._sampling) + _bytes(self._scoring)
            + _bytes(self._back),
        }  # fmt: skip

    # --- scoring --------------------------------------------------------------------------------------

    def scorer(self, steps: int) -> "CpuScorer":
        return CpuScorer(self, steps)

    # --- files ----------------------------------------------------------------------------------------

    def parameters(self) -> Tensors:
        return self._named("", self._weights)

    def state(self) -> Tensors:
        settings, shape = self._settings, self.shape
        tensors: Tensors = {}
        if settings.optimizer != "sgd":
            tensors |= self._named("moment.0.", self._squares)
        if settings.optimizer == "adam":
            tensors |= self._named("moment.1.", self._means)
        states = {"hidden": self._states.h, "cell": self._states.c}
        for name, array in states.items():
            tensors[name] = np.ascontiguousarray(array[:, : settings.batch, : shape.hidden])
        tensors["moved"] = self._moved
        return tensors

    def restore(self, tensors: Mapping[str, np.ndarray]) -> None:
        settings, shape = self._settings, self.shape
        self._fill("", self._weights, tensors)
        if settings.optimizer != "sgd":
            self._fill("moment.0.", self._squares, tensors)
        if settings.optimizer == "adam":
            self._fill("moment.1.", self._means, tensors)
        for name, array in {"hidden": self._states.h, "cell": self._states.c}.items():
            array[:, : settings.batch, : shape.hidden] = tensors[name]
        self._moved[:] = tensors["moved"]
        self._transpose()

    def _named(self, prefix: str, weights: arrays.Weights) -> Tensors:
        shape = self.shape
        tensors: Tensors = {
            f"{prefix}embedding": Rows(weights.embedding, shape.embedding),
            f"{prefix}output": Rows(weights.output, shape.hidden),
            f"{prefix}output_bias": weights.output[:, shape.hidden].copy(),
        }
        for layer in range(shape.layers):
            for part, array in arrays.layer_of(weights, layer, shape)._asdict().items():
                tensors[f"{prefix}lstm.{layer}.{part}"] = array
        return tensors

    def _fill(self, prefix: str, weights: arrays.Weights, tensors: Mapping[str, np.ndarray]) -> None:
        shape = self.shape
        weights.embedding[:, : shape.embedding] = tensors[f"{prefix}embedding"]
        weights.output[:, : shape.hidden] = tensors[f"{prefix}output"]
        weights.output[:, shape.hidden] = tensors[f"{prefix}output_bias"]
        for layer in range(shape.layers):
            parts = Layer(*(tensors[f"{prefix}lstm.{layer}.{part}"] for part in Layer._fields))
            arrays.fill_layer(weights, layer, parts, shape)

    def close(self) -> None:
        self._team.close()


class CpuScorer:
    """One row of text, with a state of its own and the device's parameters."""

    def __init__(self, device: CpuDevice, steps: int) -> None:
        self._device = device
        self._states = arrays.states(device.shape, 1, steps)
        self._room = arrays.scoring(device.shape, steps, device._team.threads)
        self._keys = np.zeros(device.shape.layers + 1, np.uint64)

    def score(self, inputs: np.ndarray, targets: np.ndarray) -> Scores:
        device, room = self._device, self._room
        batch, steps = inputs.shape
        ids, wanted = _by_step(inputs), _by_step(targets)
        device._team.run(
            score, device._weights, device._own, self._states, room, device._logit_offsets,
            device.shape.embedding, device._bias, self._keys,
            ids, wanted, np.zeros(len(ids), np.uint64), device._kept(ids, batch), batch, steps,
        )  # fmt: skip
        log_z = _log_z(room, len(ids))
        scores = room.target_scores[: len(ids)] - log_z
        return Scores(scores.reshape(steps, batch).T, log_z.reshape(steps, batch).T)


def _bytes(arrays_: Any) -> int:
    """Of an array, or of all in a tuple."""
    return arrays_.nbytes if isinstance(arrays_, np.ndarray) else sum(map(_bytes, arrays_))


def _by_step(array: np.ndarray) -> np.ndarray:
    """Rows (t·B + b) from (B, T)."""
    return np.ascontiguousarray(array.T).reshape(-1)


def _log_z(room: arrays.Scoring, rows: int) -> np.ndarray:
    """float64 (rows,): the threads' parts together."""
    highest = room.highest[:, :rows].astype(np.float64)
    top = highest.max(axis=0)
    return np.asarray(top + np.log((room.sums[:, :rows] * np.exp(highest - top)).sum(axis=0)))
