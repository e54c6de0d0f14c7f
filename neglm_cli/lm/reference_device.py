"""The reference as a device: what all others are compared with. For small models, whose tables fit many times."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from neglm_cli.lm import reference
from neglm_cli.lm.device import Minibatch, Scores, StepResult, Tensors
from neglm_cli.lm.parameters import Parameters
from neglm_cli.lm.tensors import optimizer_arrays, row_steps
from neglm_cli.objective.losses import LOSSES, logit_offsets, train_offsets
from neglm_cli.objective.noise import alias_table, draw_word, probabilities
from neglm_cli.objective.random import NOISE, draw, stream
from neglm_cli.settings.parameters import CELL_STATE, HIDDEN_STATE, ParameterSpec, parameters
from neglm_cli.settings.train_lm import Settings


class Done:
    def __init__(self, trained: StepResult) -> None:
        self._trained = trained

    def result(self) -> StepResult:
        return self._trained


class ReferenceDevice:
    def __init__(self, parameters: Parameters, settings: Settings, counts: np.ndarray, end_of_line: int) -> None:
        self.shape = parameters.shape
        self.settings = settings
        self._counts = counts
        self._end_of_line = end_of_line
        self._noise = probabilities(counts, settings.noise_alpha)
        self._biased = LOSSES[settings.loss].bias
        self.model = model_of(parameters.tensors(), self.shape.layers)

    def prepare_training(self) -> None:
        settings, none = self.settings, self._nothing(self.settings.batch)
        self.h, self.c = list(none), list(none)
        self.optimizer = reference.Optimizer(
            settings.optimizer, not settings.exact, settings.clip, self.model.like(), self.model.like()
        )

    def _nothing(self, batch: int) -> list[np.ndarray]:
        return [np.zeros((batch, self.shape.hidden)) for _ in range(self.shape.layers)]

    def _state_mask(self, inputs: np.ndarray) -> np.ndarray | None:
        return (inputs != self._end_of_line).astype(float) if self.settings.reset_at_eos else None

    def train(self, minibatch: Minibatch) -> Done:
        settings, model = self.settings, self.model
        inputs, targets, positions = minibatch[:3]
        widths = [*self.shape.inputs, self.shape.hidden]
        masks = reference.dropout_masks(widths, positions, settings.dropout, settings.seed, minibatch.epoch)
        state_mask = self._state_mask(inputs)
        activations = reference.forward(model, inputs, self.h, self.c, masks, state_mask)
        gradient = model.like()
        scale = 1 / settings.batch
        if settings.loss == "softmax":
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
        self.optimizer.steps = minibatch.step - 1
        norm = self.optimizer.step(model, gradient, minibatch.rate, (inputs.reshape(-1), touched))
        self.h, self.c = activations.h, activations.c
        return Done(StepResult(loss, inputs.size, norm))

    def log_z(self) -> np.ndarray:
        return self.logits_of(self.h[-1][:, None]).log_z[:, 0]

    def logits_of(self, y: np.ndarray, targets: np.ndarray | None = None) -> Scores:
        """y (B, T, H)."""
        settings = self.settings
        offsets = logit_offsets(settings.loss, self._noise, settings.k, settings.log_z)
        logits = reference.logits(self.model, y, offsets, self._biased)
        log_z = reference.log_sum_exp(logits)
        words = np.zeros(y.shape[:2], np.int32) if targets is None else targets
        return Scores(np.take_along_axis(logits, words[..., None], axis=2)[..., 0] - log_z, log_z)

    def scorer(self, rows: int) -> "ReferenceScorer":
        return ReferenceScorer(self)

    def flush_lazy_updates(self, step: int, rate: float) -> None:
        """Nothing is put off."""

    def parameters(self) -> Tensors:
        return _to_tensors(self.model)

    def state(self) -> Tensors:
        step = self.optimizer.steps if self.settings.exact else 0
        tensors = row_steps(
            self.shape, self.settings, np.full((len(self.shape.tables), self.shape.words), step, np.int32)
        )
        tensors |= {HIDDEN_STATE: np.stack(self.h), CELL_STATE: np.stack(self.c)}
        for prefix, kept in optimizer_arrays(self.settings, self.optimizer).items():
            tensors |= _to_tensors(kept, prefix)
        return tensors

    def restore(self, tensors: Mapping[str, np.ndarray]) -> None:
        for prefix, model in ({"": self.model} | optimizer_arrays(self.settings, self.optimizer)).items():
            for array, value in zip(model.arrays(), model_of(tensors, self.shape.layers, prefix).arrays(), strict=True):
                array[:] = value
        self.h, self.c = (list(tensors[name].astype(np.float64)) for name in (HIDDEN_STATE, CELL_STATE))

    def close(self) -> None:
        pass


class ReferenceScorer:
    def __init__(self, device: ReferenceDevice) -> None:
        self._device = device
        self._h, self._c = device._nothing(1), device._nothing(1)

    def advance(self, inputs: np.ndarray) -> None:
        self.score(inputs, inputs)

    def score(self, inputs: np.ndarray, targets: np.ndarray) -> Scores:
        device = self._device
        activations = reference.forward(device.model, inputs, self._h, self._c, state_mask=device._state_mask(inputs))
        self._h, self._c = activations.h, activations.c
        return device.logits_of(activations.y, targets)


def noise_of(settings: Settings, counts: np.ndarray, minibatch: Minibatch) -> np.ndarray:
    """(B, T, K): the noise words that belong to a minibatch, from the definition."""
    table = alias_table(probabilities(counts, settings.noise_alpha))
    rows, steps = minibatch.inputs.shape
    first = minibatch.number * settings.bptt
    places = {
        "token": minibatch.positions,
        "step": np.tile(np.arange(first, first + steps, dtype=np.uint64), (rows, 1)),
        "batch": np.full((rows, steps), minibatch.number, np.uint64),
    }[settings.noise]
    key = stream(settings.seed, NOISE, minibatch.epoch)
    bits = draw(draw(np.array([key]), places)[..., None], np.arange(settings.k, dtype=np.uint64))
    return np.array([draw_word(table, b) for b in bits.reshape(-1)], np.int64).reshape(bits.shape)


def _to_tensors(model: reference.Model, prefix: str = "") -> Tensors:
    """Return a model, or arrays like it, as tensors of a file."""
    return {prefix + spec.name: _array(model, spec) for spec in parameters(len(model.w_ih))}


def model_of(tensors: Mapping[str, np.ndarray], layers: int, prefix: str = "") -> reference.Model:
    """Convert the tensors of a file or of a device to a model in float64."""
    found: dict[str, Any] = {}
    for spec in parameters(layers):
        values = tensors[prefix + spec.name].astype(np.float64)
        if spec.table:
            found[spec.name] = values
        else:
            found.setdefault(spec.array, []).append(values)
    return reference.Model(**found)


def _array(model: reference.Model, spec: ParameterSpec) -> np.ndarray:
    array: np.ndarray = getattr(model, spec.name) if spec.table else getattr(model, spec.array)[spec.layer]
    return array
