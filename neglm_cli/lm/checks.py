"""Whether one device trains and scores as another does: for `neglm doctor`, and for tests."""

import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from neglm_cli.lm.device import Device, StepResult
from neglm_cli.lm.model import Progress
from neglm_cli.lm.parameters import Parameters, Shape, start
from neglm_cli.lm.tensors import whole
from neglm_cli.lm.trainer import Trainer
from neglm_cli.settings.train_lm import Settings
from neglm_cli.text.encoded import InMemoryCorpus

# Of errors. At the sizes of the paper's model the processor is within a tenth of each of the reference, with SGD and
# with Adagrad (the others were not tried); Adagrad comes nearer, whose steps are long where gradients are tiny, too.
LIMITS = {
    "product": 2e-5,  # of the largest number
    "loss": 1e-5,  # of the loss of a minibatch
    "norm": 1e-4,  # of the gradient's norm
    "parameters": 2e-3,  # of the way that a tensor went in training, as a vector
    "state": 2e-4,  # of the state, as a vector
    "log Z": 1e-3,
    "scores": 1e-3,  # nats
}
END_OF_LINE = 0  # the most frequent word: minibatches should begin with it, too

VARIANTS: dict[str, dict[str, Any]] = {
    "neglm, each word with noise words of its own": {},
    "neglm-b, noise words shared by a step": {"loss": "neglm-b", "noise": "step"},
    "nce, noise words shared by a minibatch": {"loss": "nce", "noise": "batch", "reset_at_eos": True},
    "softmax": {"loss": "softmax"},
    "neglm, Adagrad": {"optimizer": "adagrad", "lr": 0.05},
    "neglm, exact Adam": {"optimizer": "adam", "adam": "exact", "lr": 0.01},
}


@dataclass(frozen=True)
class Check:
    """What was checked, how wrong it was in which respects, or why it could not be checked."""

    name: str
    errors: dict[str, float] = field(default_factory=dict)
    failure: str = ""

    @property
    def good(self) -> bool:
        return not self.failure and all(error <= LIMITS[what] for what, error in self.errors.items())


def checked(name: str, function: Callable[[], dict[str, float]]) -> Check:
    """Whatever goes wrong is a result: a report that ends at the first trouble would not say what works."""
    try:
        return Check(name, function())
    except Exception as error:
        return Check(name, failure=described(error))


def described(error: Exception) -> str:
    """An error in one line, and without the directories of this machine: reports are shown to others."""
    first = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {re.sub(r'(?:/[^/ ]+)+/', '…/', first)}"


class Task(NamedTuple):
    """A short training on a text that is made up."""

    settings: Settings
    words: int
    minibatches: int = 3  # and a shorter one
    scored: int = 24  # words

    @property
    def counts(self) -> np.ndarray:
        """As Zipf has them."""
        return (1_000_000 / np.arange(1, self.words + 1)).astype(np.int64) + 1

    def text(self) -> InMemoryCorpus:
        settings = self.settings
        length = settings.batch * (self.minibatches * settings.bptt + max(settings.bptt // 3, 1)) + 1
        shares = np.cumsum(self.counts / self.counts.sum())
        return InMemoryCorpus(np.searchsorted(shares, np.random.default_rng(1).random(length)).clip(max=self.words - 1))

    def parameters(self) -> Parameters:
        settings = self.settings
        shape = Shape(self.words, settings.embedding, settings.hidden, settings.layers)
        return start(shape, settings.seed, settings.init_range, settings.init_output, 0.0)


Maker = Callable[[Task], Device]


def on_processor(task: Task) -> Device:
    from neglm_cli.lm.cpu.device import CpuDevice

    device = CpuDevice(task.parameters(), task.settings, task.counts, END_OF_LINE)
    device.prepare_training()
    return device


def by_reference(task: Task) -> Device:
    from neglm_cli.lm.reference_device import ReferenceDevice

    device = ReferenceDevice(task.parameters(), task.settings, task.counts, END_OF_LINE)
    device.prepare_training()
    return device


def compare(task: Task, make: Maker, make_expected: Maker) -> dict[str, float]:
    """Train and score on two devices, and see how far they are apart."""
    device, expected = make(task), make_expected(task)
    try:
        start = _parameters(expected)
        errors, _ = _train(device, expected, task, Progress())
        return errors | _apart(device, expected, start) | _scored(device, expected, task)
    finally:
        device.close()
        expected.close()


def compare_scores(task: Task, make: Maker, make_expected: Maker) -> dict[str, float]:
    """Score on two devices that are not prepared for training."""
    device, expected = make(task), make_expected(task)
    try:
        return _scored(device, expected, task)
    finally:
        device.close()
        expected.close()


def hand_over(task: Task, make: Maker, make_next: Maker) -> dict[str, float]:
    """Train an epoch on one device; then both go on from its state, and should stay together."""
    device, after = make(task), make_next(task)
    try:
        _, progress = _train(device, None, task, Progress())
        after.restore(whole(device.parameters() | device.state()))
        start = _parameters(device)
        errors, _ = _train(after, device, task, progress)
        return errors | _apart(after, device, start)
    finally:
        device.close()
        after.close()


def processor_checks(task: Task) -> Iterator[Check]:
    """The processor's device against the reference."""
    for name, changes in VARIANTS.items():
        changed = task._replace(settings=replace(task.settings, **changes))
        yield checked(name, partial(compare, changed, on_processor, by_reference))
    exact = task._replace(settings=replace(task.settings, optimizer="adam", adam="exact", lr=0.01))
    yield checked("a training that goes on from a state", partial(hand_over, exact, on_processor, on_processor))


def _train(
    device: Device, expected: Device | None, task: Task, progress: Progress
) -> tuple[dict[str, float], Progress]:  # fmt: skip
    """One more epoch; without `expected` there is nothing to compare with."""
    text, settings = task.text(), replace(task.settings, epochs=progress.epoch + 1)
    trainers = [Trainer(text, each, settings, deepcopy(progress)) for each in (device, expected) if each is not None]
    loss, norm = [0.0], [0.0]
    for results in zip(*(trainer.run() for trainer in trainers), strict=True):
        first, last = results[0], results[-1]
        if isinstance(first, StepResult) and isinstance(last, StepResult):
            loss.append(abs(first.loss - last.loss) / abs(last.loss))
            norm.append(abs(first.norm - last.norm) / last.norm)
    return {"loss": _worst(loss), "norm": _worst(norm)}, trainers[0].progress


def _parameters(device: Device) -> dict[str, np.ndarray]:
    """As they are now."""
    return {name: array.copy() for name, array in whole(device.parameters()).items()}


def _apart(device: Device, expected: Device, start: dict[str, np.ndarray]) -> dict[str, float]:
    """Of parameters: the worst tensor's distance from where it should be, as a share of its way there."""
    found, wanted = whole(device.parameters()), whole(expected.parameters())
    parameters = [_share(found[name] - wanted[name], wanted[name] - start[name]) for name in wanted]
    found, wanted = whole(device.state()), whole(expected.state())
    state = [_share(found[name] - wanted[name], wanted[name]) for name in ("hidden", "cell")]
    log_z = float(np.abs(device.log_z() - expected.log_z()).max())
    return {"parameters": _worst(parameters), "state": _worst(state), "log Z": log_z}


def _worst(errors: list[float]) -> float:
    """The largest, or no number if one of them is none: Python's `max` would pass over it."""
    return float(np.max(errors))


def _share(distance: np.ndarray, way: np.ndarray) -> float:
    far, whole_way = (float(np.linalg.norm(array.astype(np.float64))) for array in (distance, way))
    return far / whole_way if whole_way else 0.0 if not far else np.inf


def _scored(device: Device, expected: Device, task: Task) -> dict[str, float]:
    """Text in two parts, so that the second goes on from the state behind the first."""
    random = np.random.default_rng(2)
    inputs, targets = random.integers(0, task.words, (2, 1, task.scored)).astype(np.int32)
    scorers = [each.scorer(task.scored) for each in (device, expected)]
    errors = []
    for part in (slice(0, task.scored // 2), slice(task.scored // 2, task.scored)):
        one, other = (scorer.score(inputs[:, part], targets[:, part]) for scorer in scorers)
        errors += [float(np.abs(a - b).max()) for a, b in zip(one, other, strict=True)]
    return {"scores": _worst(errors)}
