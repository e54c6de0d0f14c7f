"""The reference as a device, with which tests compare all others. For small models: it copies whole tables."""

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from neglm_cli.lm import reference
from neglm_cli.lm.device import Finished, Minibatch, Scores, State, StepOutput, StepResult, Tensors
from neglm_cli.lm.parameters import Parameters, Shape
from neglm_cli.lm.tensors import optimizer_arrays, row_steps
from neglm_cli.objective.losses import logit_offsets, train_offsets
from neglm_cli.objective.noise import alias_table, draw_word, noise_positions, probabilities
from neglm_cli.objective.random import NOISE, draw, stream
from neglm_cli.settings.losses import LOSSES
from neglm_cli.settings.parameters import AVERAGE, CELL_STATE, HIDDEN_STATE, ParameterSpec, parameters
from neglm_cli.settings.train_lm import Settings


class ReferenceDevice:
    def __init__(self, parameters: Parameters, settings: Settings, counts: np.ndarray, end_of_line: int) -> None:
        self.shape = parameters.shape
        self.settings = settings
        self._counts = counts
        self._end_of_line = end_of_line
        self._noise = probabilities(counts, settings.noise_alpha)
        self._biased = LOSSES[settings.loss].bias
        self.model = model_of(parameters.tensors(), self.shape)

    def prepare_training(self) -> None:
        settings, shape = self.settings, self.shape
        self.h, self.c = ([np.zeros((settings.batch, shape.hidden)) for _ in range(shape.layers)] for _ in range(2))
        self.average: reference.Model | None = None
        self.optimizer = reference.Optimizer(
            settings.optimizer, not settings.catches_up, settings.clip, self.model.like(), self.model.like()
        )
        if settings.anchored:
            self.optimizer.exp_avg = copy.deepcopy(self.model)

    def state_mask(self, inputs: np.ndarray) -> np.ndarray | None:
        return (inputs != self._end_of_line).astype(float) if self.settings.reset_at_eos else None

    def train(self, minibatch: Minibatch) -> Finished:
        settings, model = self.settings, self.model
        inputs, targets = minibatch.inputs, minibatch.targets
        masks = reference.dropout_masks(settings, self.shape, minibatch)
        state_mask = self.state_mask(inputs)
        activations = reference.forward(model, inputs, self.h, self.c, masks, state_mask)
        gradient = model.like()
        scale = 1 / settings.batch
        if not settings.sampled:
            touched = np.arange(self.shape.words)
            loss, d_y = reference.softmax_loss(model, activations.y, targets, scale, gradient)
        else:
            noise = noise_of(settings, self._counts, minibatch)
            touched = np.concatenate([targets.reshape(-1), noise.reshape(-1)])
            offsets = train_offsets(settings.loss, self._noise, settings.k, settings.log_z)
            loss, d_y = reference.sampled_loss(
                model, activations.y, targets, noise, offsets, self._biased, scale, gradient
            )  # fmt: skip
        reference.backward(model, inputs, activations, d_y, gradient, masks, state_mask)
        self.optimizer.steps, self.optimizer.decay = minibatch.step - 1, minibatch.decay
        norm = self.optimizer.step(model, gradient, minibatch.rate, (inputs.reshape(-1), touched))
        self.h, self.c = activations.h, activations.c
        return Finished(StepResult(loss, inputs.size, norm))

    def add_to_average(self, number: int) -> None:
        self.average = self.average or self.model.like()
        for average, parameter in zip(self.average.arrays(), self.model.arrays(), strict=True):
            average += (parameter - average) / number

    def swap_average(self) -> None:
        assert self.average is not None
        self.model, self.average = self.average, self.model

    def log_z(self) -> np.ndarray:
        return reference.log_sum_exp(self.logits(self.h[-1]))

    def logits(self, y: np.ndarray) -> np.ndarray:
        """The logits of all words: (..., V) from y (..., H)."""
        settings = self.settings
        offsets = logit_offsets(settings.loss, self._noise, settings.k, settings.log_z)
        return reference.logits(self.model, y, offsets, self._biased)

    def scorer(self, capacity: int) -> "ReferenceScorer":
        return ReferenceScorer(self, capacity)

    def flush_lazy_updates(self, step: int, rate: float) -> None:
        """Do nothing: the reference skips no updates."""

    def flush_decay(self, step: int, decay: float, inputs: np.ndarray | None, targets: np.ndarray | None) -> None:
        """Do nothing, likewise."""

    def parameters(self) -> Tensors:
        return _to_tensors(self.model)

    def state(self) -> Tensors:
        step = self.optimizer.steps if self.settings.catches_up else 0
        tensors = row_steps(
            self.shape, self.settings, np.full((len(self.shape.tables), self.shape.words), step, np.int32)
        )
        tensors |= {HIDDEN_STATE: np.stack(self.h), CELL_STATE: np.stack(self.c)}
        for prefix, kept in optimizer_arrays(self.settings, self.optimizer).items():
            tensors |= _to_tensors(kept, prefix)
        return tensors | (_to_tensors(self.average, AVERAGE) if self.average else {})

    def restore(self, tensors: Mapping[str, np.ndarray]) -> None:
        for prefix, model in ({"": self.model} | optimizer_arrays(self.settings, self.optimizer)).items():
            for array, value in zip(model.arrays(), model_of(tensors, self.shape, prefix).arrays(), strict=True):
                array[:] = value
        if f"{AVERAGE}output" in tensors:
            self.average = model_of(tensors, self.shape, AVERAGE)
        self.h, self.c = (list(tensors[name].astype(np.float64)) for name in (HIDDEN_STATE, CELL_STATE))

    def close(self) -> None:
        pass


class ReferenceScorer:
    """Scores texts by the reference; see `device.Scorer`."""

    def __init__(self, device: ReferenceDevice, capacity: int) -> None:
        self.capacity = capacity
        self._device = device
        self._state: State | None = None

    def reset(self, state: State | None = None) -> None:
        self._state = state

    def parameters_changed(self) -> None:
        """Do nothing: results of earlier calls are not kept."""

    def advance(self, inputs: np.ndarray) -> None:
        self._forward(inputs)

    def score(
        self, inputs: np.ndarray, targets: np.ndarray, normalized: bool = True, sizes: np.ndarray | None = None
    ) -> Scores:
        self._y = self._forward(inputs)
        logits = self._device.logits(self._y)
        log_z = reference.log_sum_exp(logits) if normalized else np.zeros(targets.shape)
        return Scores(np.take_along_axis(logits, targets[..., None], axis=2)[..., 0] - log_z, log_z)

    def outputs(self) -> np.ndarray:
        return self._y.astype(np.float32)

    def step(self, state: State | None, words: np.ndarray) -> StepOutput:
        self._state = state
        y = self._forward(words[:, None])
        assert self._state is not None
        return StepOutput(self._state, y[:, 0])

    def log_z(self, y: np.ndarray) -> np.ndarray:
        return reference.log_sum_exp(self._device.logits(y))

    def target_logits(self, y: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return np.take_along_axis(self._device.logits(y), targets[:, None], axis=1)[:, 0]

    def logits(self, y: np.ndarray) -> np.ndarray:
        return self._device.logits(y)

    def _forward(self, inputs: np.ndarray) -> np.ndarray:
        """Read (B, T) words; returns y, (B, T, H)."""
        device = self._device
        state = self._state or State.zeros(device.shape, len(inputs))
        activations = reference.forward(
            device.model, inputs, list(state.h), list(state.c), state_mask=device.state_mask(inputs)
        )
        self._state = State(np.stack(activations.h), np.stack(activations.c))
        return activations.y


def noise_of(settings: Settings, counts: np.ndarray, minibatch: Minibatch) -> np.ndarray:
    """Draw the noise words of a minibatch: (B, T, K)."""
    table = alias_table(probabilities(counts, settings.noise_alpha))
    drawn_for = noise_positions(settings.noise, minibatch.positions, minibatch.number, settings.bptt)
    key = stream(settings.seed, NOISE, minibatch.epoch)
    bits = draw(draw(np.array([key]), drawn_for)[..., None], np.arange(settings.k, dtype=np.uint64))
    words = np.array([draw_word(table, b) for b in bits.reshape(-1)], np.int64).reshape(bits.shape)
    return np.broadcast_to(words, (*minibatch.inputs.shape, settings.k))


def _to_tensors(model: reference.Model, prefix: str = "") -> Tensors:
    """Return a model, or arrays like it, as tensors of a file."""
    return {prefix + spec.name: _array(model, spec) for spec in parameters(len(model.w_ih), model.tied)}


def model_of(tensors: Mapping[str, np.ndarray], shape: Shape, prefix: str = "") -> reference.Model:
    """Convert the tensors of a file or of a device to a model in float64."""
    found: dict[str, Any] = {}
    for spec in shape.specs:
        values = tensors[prefix + spec.name].astype(np.float64)
        if spec.table:
            found[spec.name] = values
        else:
            found.setdefault(spec.array, []).append(values)
    if shape.tied:
        found["embedding"] = found["output"]
    return reference.Model(**found)


def _array(model: reference.Model, spec: ParameterSpec) -> np.ndarray:
    array: np.ndarray = getattr(model, spec.name) if spec.table else getattr(model, spec.array)[spec.layer]
    return array
