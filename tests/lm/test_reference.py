"""The reference's gradients match finite differences, and its optimizers match their formulas."""

import math
from dataclasses import replace

import numpy as np
import pytest

from neglm_cli.lm.device import Minibatch
from neglm_cli.lm.parameters import Shape
from neglm_cli.lm.reference import Model, Optimizer, backward, dropout_masks, forward, sampled_loss, softmax_loss
from neglm_cli.objective.losses import train_offsets
from neglm_cli.settings.losses import LOSSES
from neglm_cli.settings.train_lm import Settings

B, T, D, H, V, K = 2, 4, 3, 2, 6, 4
LAYERS = 2
SCALE = 0.5
NOISE = np.array([0.3, 0.25, 0.2, 0.1, 0.1, 0.05])  # p_α
EPSILON = 1e-5


def some_model(tied: bool = False) -> Model:
    random = np.random.default_rng(3)
    sizes = [H if tied else D] + [H] * (LAYERS - 1)
    model = Model(
        random.standard_normal((V, D)),
        [random.standard_normal((size, 4 * H)) for size in sizes],
        [random.standard_normal((H, 4 * H)) for _ in sizes],
        [random.standard_normal(4 * H) for _ in sizes],
        random.standard_normal((V, H)),
        random.standard_normal(V),
    )
    return replace(model, embedding=model.output) if tied else model


class Task:
    """A prediction task whose noise words include repeats and the target itself."""

    def __init__(self, loss: str, dropped: bool, resets: bool, tied: bool = False) -> None:
        random = np.random.default_rng(5)
        self.loss = loss
        self.inputs = random.integers(0, V, (B, T))
        self.targets = random.integers(0, V, (B, T))
        self.noise = random.integers(0, V, (B, T, K))
        self.noise[:, 1, 1] = self.noise[:, 1, 0]
        self.noise[0, :, 2] = self.targets[0]
        self.h = list(random.standard_normal((LAYERS, B, H)))
        self.c = list(random.standard_normal((LAYERS, B, H)))
        settings = Settings(dropout=0.3, embedding_dropout=0.2, recurrent_dropout=0.4)
        positions = np.arange(B * T, dtype=np.uint64).reshape(B, T)
        minibatch = Minibatch(self.inputs, self.targets, positions, 0, 0, 1, 1.0)
        shape = Shape(V, H if tied else D, H, LAYERS, tied)
        self.masks = dropout_masks(settings, shape, minibatch) if dropped else None
        self.state_mask = np.array([[1.0, 1, 0, 1], [0, 1, 1, 1]]) if resets else None

    def gradient(self, model: Model) -> tuple[float, Model]:
        """Return the loss, and SCALE times its gradient."""
        gradient = model.like()
        activations = forward(model, self.inputs, self.h, self.c, self.masks, self.state_mask)
        if LOSSES[self.loss].sampled:
            offsets = train_offsets(self.loss, NOISE, K, 0.4)
            biased = LOSSES[self.loss].bias
            loss, d_y = sampled_loss(model, activations.y, self.targets, self.noise, offsets, biased, SCALE, gradient)
        else:
            loss, d_y = softmax_loss(model, activations.y, self.targets, SCALE, gradient)
        backward(model, self.inputs, activations, d_y, gradient, self.masks, self.state_mask)
        return loss, gradient


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("resets", [False, True])
@pytest.mark.parametrize("dropped", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_gradients(loss: str, dropped: bool, resets: bool, tied: bool) -> None:
    """Gradients of all parameters match numerical derivatives of the loss."""
    task, model = Task(loss, dropped, resets, tied), some_model(tied)
    gradient = task.gradient(model)[1]
    for parameters, found in zip(model.arrays(), gradient.arrays(), strict=True):
        slopes = np.empty_like(parameters)
        for index in np.ndindex(*parameters.shape):
            before = parameters[index]
            parameters[index] = before + EPSILON
            above = task.gradient(model)[0]
            parameters[index] = before - EPSILON
            slopes[index] = (above - task.gradient(model)[0]) / (2 * EPSILON)
            parameters[index] = before
        np.testing.assert_allclose(found, SCALE * slopes, rtol=1e-6, atol=1e-8)
    assert all(array.any() for array in gradient.arrays()[:-1])
    assert gradient.output_bias.any() == LOSSES[loss].bias


def test_sampled_loss() -> None:
    """Computed from the definition, one word at a time."""
    task, model = Task("nce", False, False), some_model()
    y = forward(model, task.inputs, task.h, task.c).y
    offsets = train_offsets("nce", NOISE, K, 0.4)

    def log_sigmoid(word: int, row: int, step: int, sign: int) -> float:
        score = float(model.output[word] @ y[row, step] + model.output_bias[word] + offsets[word])
        return -math.log(1 + math.exp(-sign * score))

    expected = 0.0
    for row, step in np.ndindex(B, T):
        expected -= log_sigmoid(int(task.targets[row, step]), row, step, 1)
        expected -= sum(log_sigmoid(int(word), row, step, -1) for word in task.noise[row, step])
    assert task.gradient(model)[0] == pytest.approx(expected)


def test_softmax_loss() -> None:
    task, model = Task("softmax", False, False), some_model()
    y = forward(model, task.inputs, task.h, task.c).y
    powers = np.exp(y @ model.output.T + model.output_bias)
    shares = np.take_along_axis(powers, task.targets[..., None], 2)[..., 0] / powers.sum(axis=2)
    assert task.gradient(model)[0] == pytest.approx(-np.log(shares).sum())


def test_a_reset_clears_the_state() -> None:
    task, model = Task("neglm", False, False), some_model()
    state_mask = np.ones((B, T))
    state_mask[0, 2] = 0
    with_state = forward(model, task.inputs, task.h, task.c)
    found = forward(model, task.inputs, task.h, task.c, state_mask=state_mask)
    none = [np.zeros((1, H))] * LAYERS
    np.testing.assert_allclose(found.y[:1, 2:], forward(model, task.inputs[:1, 2:], none, none).y)
    np.testing.assert_array_equal(found.y[0, :2], with_state.y[0, :2])
    np.testing.assert_array_equal(found.y[1], with_state.y[1])


def one_parameter(value: float) -> Model:
    """Make a model whose only nonzero parameter is the single entry of its embedding."""
    return Model(np.array([[value]]), [], [], [], np.zeros((1, 1)), np.zeros(1))


def optimized(kind: str, gradients: list[float], rate: float, clip: float = math.inf, decay: float = 0.0) -> float:
    """Optimize a parameter that starts at 1; return its final value."""
    model = one_parameter(1.0)
    optimizer = Optimizer(kind, False, clip, model.like(), model.like(), decay=decay)
    for g in gradients:
        norm = optimizer.step(model, one_parameter(g), rate, (np.array([0]), np.array([0])))
        assert norm == abs(g)
    return float(model.embedding[0, 0])


def test_sgd() -> None:
    assert optimized("sgd", [3.0, -2.0], 0.1) == pytest.approx(1 - 0.3 + 0.2)


def test_adagrad() -> None:
    assert optimized("adagrad", [3.0, -4.0], 0.1) == pytest.approx(1 - 0.1 * 3 / 3 + 0.1 * 4 / 5)


def test_adam() -> None:
    """With bias-corrected moments, as in Algorithm 1 of its paper."""
    mean, square = 0.1 * 3, 0.001 * 9
    first = 0.1 * (mean / 0.1) / math.sqrt(square / 0.001)
    assert optimized("adam", [3.0], 0.1) == pytest.approx(1 - first, rel=1e-6)
    mean, square = 0.9 * mean + 0.1 * -4, 0.999 * square + 0.001 * 16
    second = 0.1 * (mean / (1 - 0.9**2)) / math.sqrt(square / (1 - 0.999**2))
    assert optimized("adam", [3.0, -4.0], 0.1) == pytest.approx(1 - first - second, rel=1e-6)


@pytest.mark.parametrize("kind", ["sgd", "adagrad", "adam"])
def test_weight_decay_is_apart_from_the_gradient(kind: str) -> None:
    """It changes neither moments nor the step."""
    step = 1 - optimized(kind, [3.0], 0.1)
    assert optimized(kind, [3.0], 0.1, decay=0.02) == pytest.approx(0.98 - step)


def test_clipping() -> None:
    assert optimized("sgd", [3.0, 0.5, 0.0], 0.1, clip=2.0) == pytest.approx(1 - 0.2 - 0.05)


@pytest.mark.parametrize("lazy", [False, True])
def test_adam_updates_untouched_rows_unless_lazy(lazy: bool) -> None:
    model = Model(np.zeros((2, 1)), [], [], [], np.zeros((2, 1)), np.zeros(2))
    optimizer = Optimizer("adam", lazy, math.inf, model.like(), model.like())
    both, first = np.array([0, 1]), np.array([0])
    for touched in (both, first):
        gradient = model.like()
        for array in (gradient.embedding, gradient.output, gradient.output_bias):
            array[touched] = 1.0
        optimizer.step(model, gradient, 0.1, (touched, touched))
    for array in (model.embedding[:, 0], model.output[:, 0], model.output_bias):
        assert array[0] == pytest.approx(-0.2)
        late = 0.09 / 0.19 / math.sqrt(0.000999 / 0.001999)  # bias-corrected moments of the second step
        assert array[1] == pytest.approx(-0.1 if lazy else -0.1 - 0.1 * late)
