"""The processor as a device: its threads, and the arrays that they share."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from neglm_cli.lm.cpu import arrays, lstm
from neglm_cli.lm.cpu.batch_parts import batch_parts
from neglm_cli.lm.cpu.optimise import catch_up
from neglm_cli.lm.cpu.softmax import log_normalisers
from neglm_cli.lm.cpu.step import Numbers, Text, go_back, go_there, move_alike, score, train
from neglm_cli.lm.cpu.together import NO_ROWS, Together, gradients_behind_each_other
from neglm_cli.lm.cpu.training import SAMPLED_ROWS, training_arrays
from neglm_cli.lm.device import Finished, Minibatch, Pending, Scores, Tensors, Trained, rows_of_all
from neglm_cli.lm.optimisers import EPSILON, KINDS
from neglm_cli.lm.parameters import Layer, Parameters, Shape, padded, start
from neglm_cli.lm.settings import Settings
from neglm_cli.lm.tensors import Rows
from neglm_cli.objective.losses import LOSSES, logit_offsets, train_offsets
from neglm_cli.objective.noise import alias_table, probabilities
from neglm_cli.objective.random import DROPOUT, NOISE, draw, stream
from neglm_cli.scale.ranks import ALONE, Ranks, shares


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
        self.results(function, *arguments)

    def results(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """What each thread returns."""
        return [future.result() for future in self.start(function, *arguments)]

    def run_here(self, function: Callable[..., Any], *arguments: Any) -> None:
        """On the thread that calls it, if that is the whole team."""
        assert self.threads == 1
        function(*arguments, 0, 1, self.counter)

    def close(self) -> None:
        for member in self._members:
            member.shutdown()


class State(NamedTuple):
    """Of some rows of text: float32 (L, B, H) each."""

    h: np.ndarray
    c: np.ndarray

    def of(self, rows: np.ndarray) -> "State":
        return State(self.h[:, rows], self.c[:, rows])


class Followed(NamedTuple):
    """After one more word."""

    state: State
    y: np.ndarray  # (B, ·)
    log_z: np.ndarray  # float64 (B,)


class PendingMinibatch:
    def __init__(self, parts: list[Future[Any]], words: int) -> None:
        self._parts = parts
        self._words = words

    def result(self) -> Trained:
        parts = [part.result() for part in self._parts]
        return Trained(sum(loss for loss, _ in parts), self._words, parts[0][1])


class CpuDevice:
    """A model with its counts, for scoring; `prepare_training` makes the arrays for training, too."""

    def __init__(
        self, parameters: Parameters, settings: Settings, counts: np.ndarray, end_of_line: int, ranks: Ranks = ALONE
    ) -> None:
        self.shape = parameters.shape
        self.settings = settings
        self._ranks = ranks
        starts = shares(settings.batch, ranks.size)
        self._rows = slice(starts[ranks.rank], starts[ranks.rank + 1])  # of the batch: those of this process
        self._batch = self._rows.stop - self._rows.start
        self._end_of_line = end_of_line
        self._noise = probabilities(counts, settings.noise_alpha)
        self.logit_offsets = self._offsets(logit_offsets)
        self.bias = np.float32(LOSSES[settings.loss].bias)
        self.team = Team(settings.threads)
        self.own = arrays.shares(self.shape, settings.threads)
        self.weights = arrays.packed_weights(parameters)

    def _offsets(self, function: Callable[..., np.ndarray]) -> np.ndarray:
        settings = self.settings
        return function(settings.loss, self._noise, settings.k, settings.log_z).astype(np.float32)

    # --- training -------------------------------------------------------------------------------------

    def prepare_training(self) -> None:
        shape, ranks = self.shape, self._ranks
        here = replace(self.settings, batch=self._batch)
        room = self.settings.batch * self.settings.bptt * shape.embedding if ranks.size > 1 else 0
        gradients, flat = gradients_behind_each_other(self.weights, room)
        self._training = training_arrays(
            shape, here, batch_parts(self.settings.batch, ranks.rank, ranks.size), self.weights, gradients, self.own,
            alias_table(self._noise), self._offsets(train_offsets),
        )  # fmt: skip
        self._together = Together(ranks, self.team, shape, self._training, flat) if ranks.size > 1 else None
        self._transpose()

    def _transpose(self) -> None:
        weights, back = self.weights, self._training.back
        for layer in range(self.shape.layers):
            panels = weights.w.shape[1]
            lstm.transpose(weights.w[layer], back.w[layer], back.w_starts, back.w_ends[layer], 0, panels)
            lstm.transpose(weights.u[layer], back.u[layer], back.u_starts, back.u_ends, 0, panels)

    def train(self, minibatch: Minibatch) -> Pending:
        text, numbers = self._arguments(minibatch)
        if self._together is not None:
            return Finished(self._together.train(minibatch, text, numbers))
        parts = self.team.start(train, self._training, text, numbers)
        return PendingMinibatch(parts, minibatch.inputs.size)

    def _arguments(self, minibatch: Minibatch) -> tuple[Text, Numbers]:
        settings, rows = self.settings, self._rows
        whole, steps = minibatch.inputs.shape
        batch = self._batch
        here = replace(settings, batch=batch)
        numbers = Numbers(
            batch, steps, settings.embedding, settings.mode, settings.k,
            max(min(here.group_rows, batch * steps), 1), settings.dropped, self.bias,
            np.float32(1 / whole), float(settings.clip), KINDS[settings.optimizer],
            settings.exact, minibatch.step, float(minibatch.rate),
            EPSILON,
        )  # fmt: skip
        inputs, targets, positions = (array[rows] for array in minibatch[:3])
        return self.text(inputs, targets, positions, minibatch.epoch, minibatch.number), numbers

    def text(
        self, inputs: np.ndarray, targets: np.ndarray, positions: np.ndarray, epoch: int = 0, number: int = 0
    ) -> Text:
        """What kernels need to know of (B, T) words."""
        settings = self.settings
        batch, steps = inputs.shape
        ids, by_step = _by_step(inputs), _by_step(positions)
        kept = np.ones(len(ids) + batch, np.float32)
        if settings.reset_at_eos:
            kept[: len(ids)] = ids != self._end_of_line
        first = number * settings.bptt
        noise_positions = {
            "token": by_step,
            "step": np.arange(first, first + steps, dtype=np.uint64),
            "batch": np.array([number], np.uint64),
        }[settings.noise]
        dropout = np.array([stream(settings.seed, DROPOUT, epoch)])
        keys = draw(dropout, np.arange(self.shape.layers + 1, dtype=np.uint64))
        noise_key = stream(settings.seed, NOISE, epoch)
        return Text(ids, _by_step(targets), kept, by_step, noise_positions, noise_key, keys)

    def log_z(self) -> np.ndarray:
        training, hidden = self._training, self.shape.hidden
        rows = min(SAMPLED_ROWS, self._batch)
        y = arrays.zeros(rows, training.states.y.shape[1])
        y[:, :hidden] = training.states.h[-1, :rows, :hidden]
        y[:, hidden] = self.bias
        room, no_targets = training.scoring, np.zeros(rows, np.int32)

        def work(thread: int, threads: int, counter: np.ndarray) -> None:
            log_normalisers(
                y, rows, self.weights.output, self.logit_offsets, no_targets, self.own.blocks[thread],
                self.own.blocks[thread + 1], room.packed[thread], room.scores[thread], room.highest[thread],
                room.sums[thread], room.target_scores,
            )  # fmt: skip

        self.team.run(work)
        return _log_z(room, rows)

    def finish_moves(self, step: int, rate: float) -> None:
        if not self.settings.exact:
            return
        training = self._training
        every = np.arange(self.shape.words, dtype=np.int32)
        for number, name in enumerate(("embedding", "output")):
            table, means, squares = (getattr(group, name) for group in (self.weights, training.means, training.squares))
            moved = training.moved[number]
            catch_up(table, means, squares, moved, every, len(every), step + 1, rate, EPSILON)

    def memory(self) -> dict[str, int]:
        """Bytes of all arrays, by what they are for."""
        training = self._training
        purposes: dict[str, tuple[Any, ...]] = {
            "parameters": (training.weights,),
            "optimiser": (training.squares, training.means, training.moved),
            "gradients": (training.gradients, training.inputs, training.outputs),
            "minibatch": (training.states, training.way, training.sampling, training.scoring, training.back),
        }
        return {purpose: _bytes(parts) for purpose, parts in purposes.items()}

    # --- scoring --------------------------------------------------------------------------------------

    def scorer(self, rows: int) -> "CpuScorer":
        return CpuScorer(self, rows)

    # --- files ----------------------------------------------------------------------------------------

    def parameters(self) -> Tensors:
        return self._named("", self.weights)

    def state(self) -> Tensors:
        training, hidden = self._training, self.shape.hidden
        tensors: Tensors = {"moved": training.moved}
        for number, moments in enumerate(self._moments()):
            tensors |= self._named(f"moment.{number}.", moments)
        for name, array in (("hidden", training.states.h), ("cell", training.states.c)):
            tensors[name] = rows_of_all(self._ranks, array[:, : self._batch, :hidden])
        return tensors

    def restore(self, tensors: Mapping[str, np.ndarray]) -> None:
        training, hidden = self._training, self.shape.hidden
        self._fill("", self.weights, tensors)
        for number, moments in enumerate(self._moments()):
            self._fill(f"moment.{number}.", moments, tensors)
        for name, array in (("hidden", training.states.h), ("cell", training.states.c)):
            array[:, : self._batch, :hidden] = tensors[name][:, self._rows]
        training.moved[:] = tensors["moved"]
        self._transpose()

    def _moments(self) -> list[arrays.Weights]:
        """Those that the optimiser keeps."""
        return [self._training.squares, self._training.means][: self.settings.moments]

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
        self.team.close()


class CpuScorer:
    """Reads texts, with a state of its own and the device's parameters: B rows of T words at a time, in all at most
    `rows` words. One B goes on where the last call ended, if it was the same B."""

    def __init__(self, device: CpuDevice, rows: int) -> None:
        self._device = device
        self._states = arrays.states(device.shape, rows, 1)
        self._room = arrays.scoring(device.shape, rows, device.team.threads)

    def score(self, inputs: np.ndarray, targets: np.ndarray) -> Scores:
        self._run(inputs, targets, scored=True)
        batch, steps = inputs.shape
        log_z = _log_z(self._room, batch * steps)
        scores = self._room.target_scores[: batch * steps] - log_z
        return Scores(scores.reshape(steps, batch).T, log_z.reshape(steps, batch).T)

    def pass_over(self, inputs: np.ndarray) -> None:
        self._run(inputs, inputs, scored=False)

    def score_as_it_is(self, inputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Scores that nothing normalises, in place of log-probabilities: float64 (B, T). They take no time for words
        that are no targets."""
        self._run(inputs, targets, scored=False)
        batch, steps = inputs.shape
        scores = self.scores_of(self._states.y[: batch * steps], _by_step(targets))
        return scores.reshape(steps, batch).T

    def follow(self, state: "State", words: np.ndarray, scored: bool = True) -> "Followed":
        """Read one more word in each row of a state, which is left as it is; B rows at most as many as words."""
        batch, hidden = len(words), self._device.shape.hidden
        states = self._states
        for array, given in ((states.h, state.h), (states.c, state.c)):
            array[:, :batch, :hidden] = given
        inputs = words.astype(np.int32)[:, None]
        self._run(inputs, inputs, scored)
        after = State(states.h[:, :batch, :hidden].copy(), states.c[:, :batch, :hidden].copy())
        log_z = _log_z(self._room, batch) if scored else np.zeros(batch)
        return Followed(after, states.y[:batch].copy(), log_z)

    def forget(self) -> None:
        """Go back to no state."""
        self._states.h[:] = 0
        self._states.c[:] = 0

    def no_state(self, batch: int) -> "State":
        shape = self._device.shape
        return State(*(np.zeros((shape.layers, batch, shape.hidden), np.float32) for _ in range(2)))

    def scores_of(self, y: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """float64: of word ids[i] after y[i]; without log Z."""
        device = self._device
        scores = np.einsum("nh,nh->n", y, device.weights.output[ids]) + device.logit_offsets[ids]
        return np.asarray(scores, np.float64)

    def all_scores(self, y: np.ndarray) -> np.ndarray:
        """float32 (B, V); without log Z."""
        device = self._device
        return np.asarray(y @ device.weights.output.T + device.logit_offsets)

    def _run(self, inputs: np.ndarray, targets: np.ndarray, scored: bool) -> None:
        self._device.team.run(score, *self.arguments(inputs, targets, scored))

    def arguments(self, inputs: np.ndarray, targets: np.ndarray, scored: bool = True) -> tuple[Any, ...]:
        device = self._device
        text = device.text(inputs, targets, np.zeros(inputs.shape, np.uint64))
        return (
            device.weights, device.own, self._states, self._room, device.logit_offsets, text, *inputs.shape,
            device.shape.embedding, device.bias, scored,
        )  # fmt: skip


def load_kernels(training: bool, together: bool = False) -> None:
    """Load or compile the kernels, which takes a while: so that what is timed then is work, and in this thread, where
    it can be interrupted. It is done with the smallest model there is, and no text. together: with other processes."""
    settings = Settings(k=1, hidden=1, layers=1, embedding=1, batch=1, bptt=1)
    device = CpuDevice(start(Shape(3, 1, 1, 1), 1, 0.0, 0.0, 0.0), settings, np.ones(3), 0)
    nothing, no_positions = np.empty((1, 0), np.int32), np.empty((1, 0), np.uint64)
    if training:
        device.prepare_training()
        minibatch = Minibatch(nothing, nothing, no_positions, 0, 0, 1, 0.0)
        text, numbers = device._arguments(minibatch)
        if together:
            rows = arrays.zeros(0, padded(1))
            for function in (go_there, go_back):
                device.team.run_here(function, device._training, text, numbers)
            device.team.run_here(move_alike, device._training, numbers, NO_ROWS, rows, NO_ROWS, rows)
        else:
            device.team.run_here(train, device._training, text, numbers)
    device.team.run_here(score, *CpuScorer(device, 1).arguments(nothing, nothing))
    device.close()


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
