"""Small models for tests, on a device and as the reference sees them."""

from dataclasses import replace

import numpy as np

from neglm_cli.lm import reference
from neglm_cli.lm.cpu.device import CpuDevice
from neglm_cli.lm.device import Minibatch, Tensors
from neglm_cli.lm.parameters import Parameters, Shape, start
from neglm_cli.lm.settings import Settings
from neglm_cli.objective.losses import LOSSES, logit_offsets, train_offsets
from neglm_cli.objective.noise import alias_table, draw_word, probabilities
from neglm_cli.objective.random import NOISE, draw, stream

SMALL = Settings(
    k=7, hidden=13, layers=2, embedding=10, dropout=0.3, init=0.5, init_output=0.5, batch=6, bptt=5, clip=1.0, lr=0.5,
    threads=2,
)  # fmt: skip
END_OF_LINE = 3


def whole(tensors: Tensors) -> dict[str, np.ndarray]:
    return {name: t if isinstance(t, np.ndarray) else np.concatenate(list(t.blocks())) for name, t in tensors.items()}


def parameters(settings: Settings, words: int, bias: float = 0.0) -> Parameters:
    shape = Shape(words, settings.embedding, settings.hidden, settings.layers)
    made = start(shape, settings.seed, settings.init, settings.init_output, bias)
    if LOSSES[settings.loss].bias:
        made.output[:, settings.hidden] += np.linspace(-0.5, 0.5, words, dtype=np.float32)
    return made


def counts(words: int) -> np.ndarray:
    return (1000 / np.arange(1, words + 1)).astype(np.int64) + 1


def device(settings: Settings, words: int) -> CpuDevice:
    made = CpuDevice(parameters(settings, words), settings, counts(words), END_OF_LINE)
    made.prepare_training()
    return made


def model_of(tensors: Tensors, layers: int, prefix: str = "") -> reference.Model:
    """Tensors of a device as the reference has them."""
    named = {name: array.astype(np.float64) for name, array in whole(tensors).items()}
    w, u, b = (
        [named[f"{prefix}lstm.{layer}.{part}"] for layer in range(layers)] for part in ("input", "recurrent", "bias")
    )
    return reference.Model(
        named[f"{prefix}embedding"], w, u, b, named[f"{prefix}output"], named[f"{prefix}output_bias"]
    )


def minibatch(settings: Settings, words: int, number: int, steps: int | None = None, epoch: int = 2) -> Minibatch:
    """Words at random, at positions as `Batches` gives them."""
    random = np.random.default_rng(number)
    shape = (settings.batch, steps or settings.bptt)
    ids = random.integers(0, words, (2, *shape)).astype(np.int32)
    stretch = 1000
    positions = np.arange(shape[1]) + number * settings.bptt + 1 + stretch * np.arange(shape[0])[:, None]
    return Minibatch(ids[0], ids[1], positions.astype(np.uint64), epoch, number, number + 1, settings.lr)


def noise_of(settings: Settings, words: int, batch: Minibatch) -> np.ndarray:
    """(B, T, K): the noise words that belong to a minibatch, from the definition."""
    table = alias_table(probabilities(counts(words), settings.noise_alpha))
    rows, steps = batch.inputs.shape
    step = np.arange(batch.number * settings.bptt, batch.number * settings.bptt + steps, dtype=np.uint64)
    places = {
        "token": batch.positions,
        "step": np.tile(step, (rows, 1)),
        "batch": np.full((rows, steps), batch.number, np.uint64),
    }[settings.noise]
    key = stream(settings.seed, NOISE, batch.epoch)
    bits = draw(draw(np.array([key]), places)[..., None], np.arange(settings.k, dtype=np.uint64))
    return np.array([draw_word(table, b) for b in bits.reshape(-1)], np.int64).reshape(bits.shape)


class ReferenceTraining:
    """The same training as that of a device, by the reference."""

    def __init__(self, settings: Settings, words: int) -> None:
        self.settings = settings
        self.words = words
        made = CpuDevice(parameters(settings, words), replace(settings, threads=1), counts(words), END_OF_LINE)
        self.model = model_of(made.parameters(), settings.layers)
        made.close()
        self.noise = probabilities(counts(words), settings.noise_alpha)
        kind = settings.optimizer
        self.optimiser = reference.Optimiser(
            kind, settings.adam == "lazy", settings.clip, self.model.like(), self.model.like()
        )
        self.h = [np.zeros((settings.batch, settings.hidden)) for _ in range(settings.layers)]
        self.c = [np.zeros((settings.batch, settings.hidden)) for _ in range(settings.layers)]

    def train(self, batch: Minibatch) -> tuple[float, float]:
        settings, model = self.settings, self.model
        widths = [settings.embedding] + [settings.hidden] * settings.layers
        masks = reference.dropout_masks(widths, batch.positions, settings.dropout, settings.seed, batch.epoch)
        keep = (batch.inputs != END_OF_LINE).astype(float) if settings.reset_at_eos else None
        passed = reference.forward(model, batch.inputs, self.h, self.c, masks, keep)
        gradient = model.like()
        noise = noise_of(settings, self.words, batch)
        scale = 1 / settings.batch
        if settings.loss == "softmax":
            loss, d_y = reference.softmax_loss(model, passed.y, batch.targets, scale, gradient)
        else:
            offsets = train_offsets(settings.loss, self.noise, settings.k, settings.log_z)
            biased = LOSSES[settings.loss].bias
            loss, d_y = reference.sampled_loss(model, passed.y, batch.targets, noise, offsets, biased, scale, gradient)
        reference.backward(model, batch.inputs, passed, d_y, gradient, masks, keep)
        touched = np.concatenate([batch.targets.reshape(-1), noise.reshape(-1)])
        if settings.loss == "softmax":
            touched = np.arange(self.words)
        norm = self.optimiser.move(model, gradient, batch.rate, (batch.inputs.reshape(-1), touched))
        self.h, self.c = passed.h, passed.c
        return loss, norm

    def score(self, inputs: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        settings = self.settings
        none = [np.zeros((1, settings.hidden)) for _ in range(settings.layers)]
        keep = (inputs != END_OF_LINE).astype(float) if settings.reset_at_eos else None
        y = reference.forward(self.model, inputs, none, none, keep=keep).y
        offsets = logit_offsets(settings.loss, self.noise, settings.k, settings.log_z)
        scores = reference.logits(self.model, y, offsets, LOSSES[settings.loss].bias)
        log_z = reference.log_sum_exp(scores)
        return np.take_along_axis(scores, targets[..., None], axis=2)[..., 0] - log_z, log_z
