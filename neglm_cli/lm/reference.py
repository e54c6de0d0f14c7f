"""The reference: a language model and one step of its training in plain NumPy and float64, slow and obvious.

    forward → sampled_loss or softmax_loss → backward → Optimizer.step

Every backend has the same functions under the same names, and is tested against these. The mathematics of one unit and
of one parameter are in `scalar` and `optimizers`, for all backends. Noise words and dropout masks are arguments, so
that a test can replay any step. Shapes: B batch rows, T time steps, D embedding, H hidden, V words, K noise words.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from neglm_cli.lm.device import Minibatch
from neglm_cli.lm.optimizers import ADAM, adagrad, adam, anchored, clip_scale, sgd, shrink, step_rate
from neglm_cli.lm.parameters import Shape
from neglm_cli.lm.scalar import (
    cell_backward,
    cell_forward,
    dropout_keys,
    dropout_mask,
    dropout_positions,
    recurrent_mask,
    sigmoid,
)
from neglm_cli.objective.random import draw
from neglm_cli.settings.train_lm import Settings


@dataclass
class Model:
    """Parameters, their gradients, or their optimizer state; fields as in `settings.parameters`."""

    embedding: np.ndarray  # (V, D)
    w_ih: list[np.ndarray]  # by layer: (D, 4H), then (H, 4H); gates i, f, g, o
    w_hh: list[np.ndarray]  # (H, 4H)
    bias: list[np.ndarray]  # (4H,)
    output: np.ndarray  # (V, H)
    output_bias: np.ndarray  # (V,)

    @property
    def tied(self) -> bool:
        """True if the embedding is the output table."""
        return self.embedding is self.output

    def arrays(self) -> list[np.ndarray]:
        """Return the distinct arrays."""
        embedding = [] if self.tied else [self.embedding]
        return [*embedding, *self.w_ih, *self.w_hh, *self.bias, self.output, self.output_bias]

    def like(self) -> "Model":
        """Return zeros of the same shapes."""
        w_ih, w_hh, bias = ([np.zeros_like(array) for array in arrays] for arrays in (self.w_ih, self.w_hh, self.bias))
        output = np.zeros_like(self.output)
        embedding = output if self.tied else np.zeros_like(self.embedding)
        return Model(embedding, w_ih, w_hh, bias, output, np.zeros_like(self.output_bias))


class StepActivations(NamedTuple):
    """The activations of one time step of one layer that the backward pass needs."""

    x: np.ndarray
    h: np.ndarray  # before the step
    c: np.ndarray  # before the step
    gates: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # i, f, g, o


@dataclass
class Activations:
    """The results of a forward pass."""

    y: np.ndarray  # (B, T, H): the last output, after dropout
    steps: list[list[StepActivations]]  # by layer and time step
    h: list[np.ndarray]  # by layer: (B, H), the last hidden state
    c: list[np.ndarray]  # likewise, the cell state


def unit_masks(widths: list[int], positions: np.ndarray, keys: np.ndarray, threshold: int) -> list[np.ndarray]:
    """Return the masks of units before each layer and before the output, (B, T, width) each."""
    masks = []
    for width, key in zip(widths, keys, strict=True):
        row_keys = draw(np.full(positions.shape, key), positions)[..., None]
        masks.append(dropout_mask(row_keys, np.arange(width, dtype=np.uint64), threshold))
    return masks


class Masks(NamedTuple):
    """The dropout masks of a minibatch, with the factors of what is not dropped."""

    units: list[np.ndarray]  # (B, T, units) each: before each layer and before the output
    recurrent: list[np.ndarray]  # by layer: (H, 4H), of the recurrent weights


def dropout_masks(settings: Settings, shape: Shape, minibatch: Minibatch) -> Masks:
    keys = dropout_keys(settings, minibatch.epoch, minibatch.number, shape.layers)
    positions, units = dropout_positions(settings, minibatch.positions), np.arange(shape.hidden, dtype=np.uint64)
    masks = unit_masks([*shape.inputs, shape.hidden], positions, keys.units, settings.dropout_threshold)
    words = minibatch.inputs.astype(np.uint64)[..., None]
    masks[0] = masks[0] * dropout_mask(keys.words, words, settings.embedding_dropout_threshold)
    rows, gates = units[:, None, None], np.arange(4, dtype=np.uint64)[:, None]
    recurrent = [
        recurrent_mask(key, rows, gates, units, settings.recurrent_dropout_threshold).reshape(shape.hidden, -1)
        for key in keys.recurrent
    ]
    return Masks(masks, recurrent)


def forward(
    model: Model, inputs: np.ndarray, h: list[np.ndarray], c: list[np.ndarray],
    masks: Masks | None = None, state_mask: np.ndarray | None = None,
) -> Activations:  # fmt: skip
    """Run the network over (B, T) words. state_mask (B, T): 0 where a time step starts from a zero state, else 1."""
    batch, steps = inputs.shape
    x = model.embedding[inputs] * (masks.units[0] if masks else 1)
    activations = Activations(x, [], list(h), list(c))
    for layer, (w_ih, w_hh, bias) in enumerate(zip(model.w_ih, model.w_hh, model.bias, strict=True)):
        of_layer = []
        w_hh = w_hh * (masks.recurrent[layer] if masks else 1)
        outputs = np.empty((batch, steps, w_hh.shape[0]))
        for t in range(steps):
            mask = 1.0 if state_mask is None else state_mask[:, t, None]
            h_before, c_before = activations.h[layer] * mask, activations.c[layer] * mask
            z_i, z_f, z_g, z_o = np.split(x[:, t] @ w_ih + h_before @ w_hh + bias, 4, axis=1)
            i, f, g, o, c_after, h_after = cell_forward(z_i, z_f, z_g, z_o, c_before)
            of_layer.append(StepActivations(x[:, t], h_before, c_before, (i, f, g, o)))
            activations.h[layer], activations.c[layer] = h_after, c_after
            outputs[:, t] = h_after
        activations.steps.append(of_layer)
        x = outputs * (masks.units[layer + 1] if masks else 1)
    activations.y = x
    return activations


def backward(
    model: Model, inputs: np.ndarray, activations: Activations, d_y: np.ndarray, gradient: Model,
    masks: Masks | None = None, state_mask: np.ndarray | None = None,
) -> None:  # fmt: skip
    """Compute the gradients of all parameters except the output table, from that of y."""
    d_out = d_y * (masks.units[-1] if masks else 1)
    for layer in reversed(range(len(model.w_ih))):
        d_x = np.zeros((*inputs.shape, model.w_ih[layer].shape[0]))
        d_h = np.zeros_like(activations.h[layer])
        d_c = np.zeros_like(d_h)
        mask_hh = masks.recurrent[layer] if masks else 1
        w_hh = model.w_hh[layer] * mask_hh
        for t in reversed(range(inputs.shape[1])):
            x, h, c, (i, f, g, o) = activations.steps[layer][t]
            *d_gates, d_c = cell_backward(i, f, g, o, c, d_h + d_out[:, t], d_c)
            d_z = np.hstack(d_gates)
            gradient.w_ih[layer] += x.T @ d_z
            gradient.w_hh[layer] += mask_hh * (h.T @ d_z)
            gradient.bias[layer] += d_z.sum(axis=0)
            d_x[:, t] = d_z @ model.w_ih[layer].T
            mask = 1.0 if state_mask is None else state_mask[:, t, None]
            d_h, d_c = mask * (d_z @ w_hh.T), mask * d_c
        d_out = d_x * (masks.units[layer] if masks else 1)
    np.add.at(gradient.embedding, inputs, d_out)


def sampled_loss(
    model: Model, y: np.ndarray, targets: np.ndarray, noise: np.ndarray, offsets: np.ndarray, biased: bool,
    scale: float, gradient: Model,
) -> tuple[float, np.ndarray]:  # fmt: skip
    """Return the loss of negative sampling, summed over words, and `scale` times its gradient by y.

    noise: (B, T, K).
    """
    words = np.concatenate([targets[..., None], noise], axis=2)
    truth = np.zeros(words.shape)
    truth[..., 0] = 1
    scores = np.einsum("btkh,bth->btk", model.output[words], y) + offsets[words] + biased * model.output_bias[words]
    loss = (np.logaddexp(0, scores) - truth * scores).sum()
    d_scores = scale * (sigmoid(scores) - truth)
    np.add.at(gradient.output, words, d_scores[..., None] * y[:, :, None, :])
    np.add.at(gradient.output_bias, words, biased * d_scores)
    return float(loss), np.einsum("btk,btkh->bth", d_scores, model.output[words])


def logits(model: Model, y: np.ndarray, offsets: np.ndarray, biased: bool) -> np.ndarray:
    """Return the scores of all words: (B, T, V)."""
    return y @ model.output.T + offsets + biased * model.output_bias


def log_sum_exp(scores: np.ndarray) -> np.ndarray:
    top = scores.max(axis=-1, keepdims=True)
    return np.asarray((top + np.log(np.exp(scores - top).sum(axis=-1, keepdims=True)))[..., 0])


def softmax_loss(
    model: Model, y: np.ndarray, targets: np.ndarray, scale: float, gradient: Model
) -> tuple[float, np.ndarray]:
    """Return the cross-entropy over the vocabulary, summed over words, and `scale` times its gradient by y."""
    scores = logits(model, y, np.zeros(len(model.output_bias)), True)
    log_z = log_sum_exp(scores)
    truth = np.eye(len(model.output_bias))[targets]
    d_scores = scale * (np.exp(scores - log_z[..., None]) - truth)
    gradient.output += np.einsum("btv,bth->vh", d_scores, y)
    gradient.output_bias += d_scores.sum(axis=(0, 1))
    return float((log_z - (scores * truth).sum(axis=-1)).sum()), d_scores @ model.output


@dataclass
class Optimizer:
    """SGD, Adagrad or Adam. Lazy Adam updates only rows of the tables that have a gradient, exact Adam all.

    Anchored SGD has the trained parameters, to which they decay, in `exp_avg`.
    """

    kind: str
    lazy: bool
    clip: float
    exp_avg: Model
    exp_avg_sq: Model
    steps: int = 0
    decay: float = 0.0

    def step(self, model: Model, gradient: Model, rate: float, touched: tuple[np.ndarray, np.ndarray]) -> float:
        """Update the parameters, with gradient-norm clipping. Return the norm before clipping.

        touched: the words whose rows of `embedding` and of `output` have a gradient.
        """
        self.steps += 1
        norm = float(np.sqrt(sum((g**2).sum() for g in gradient.arrays())))
        scale = clip_scale(self.clip, norm)
        inputs, outputs = (np.concatenate(touched),) * 2 if model.tied else touched
        words_of = {id(model.embedding): inputs, id(model.output): outputs, id(model.output_bias): outputs}
        for p, g, m, v in zip(
            model.arrays(), gradient.arrays(), self.exp_avg.arrays(), self.exp_avg_sq.arrays(), strict=True
        ):
            words = words_of.get(id(p))
            rows = np.unique(words) if self.lazy and words is not None else slice(None)
            self._update(p, scale * g, m, v, rate, rows)
        return norm

    def _update(
        self, p: np.ndarray, g: np.ndarray, m: np.ndarray, v: np.ndarray, rate: float, rows: "np.ndarray | slice"
    ) -> None:
        if self.kind != "anchored":
            p[rows] = shrink(p[rows], self.decay)
        if self.kind == "sgd":
            p[rows] = sgd(p[rows], g[rows], rate)
        elif self.kind == "adagrad":
            p[rows], v[rows] = adagrad(p[rows], v[rows], g[rows], rate)
        elif self.kind == "anchored":
            p[rows] = anchored(p[rows], m[rows], g[rows], rate, self.decay)
        else:
            p[rows], m[rows], v[rows] = adam(p[rows], m[rows], v[rows], g[rows], step_rate(ADAM, rate, self.steps))
