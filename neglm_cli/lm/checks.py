"""Comparison of devices: do they train and score alike? For `neglm doctor` and for tests."""

import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from neglm_cli.lm.adaptation import Adaptation, AdaptiveScorer, adaptation_settings
from neglm_cli.lm.device import Device, StepResult
from neglm_cli.lm.parameters import Parameters, Shape, initial_parameters
from neglm_cli.lm.tensors import materialize
from neglm_cli.lm.trainer import Trainer
from neglm_cli.settings.parameters import CELL_STATE, HIDDEN_STATE
from neglm_cli.settings.progress import Progress
from neglm_cli.settings.train_lm import Settings
from neglm_cli.text.encoded import InMemoryCorpus

# Largest relative errors. At the sizes of the paper's model, the CPU's errors are below a tenth of each, with SGD and
# with Adagrad (others were not tried). Adagrad's are larger: its steps are long even where gradients are tiny.
LIMITS = {
    "product": 2e-5,  # relative to the largest value
    "product in tf32": 2e-3,
    "product in bf16": 2e-2,
    "order": 0.0,  # share of sorted keys in a wrong place
    "loss": 1e-5,  # of a minibatch
    "norm": 1e-4,  # of the gradient
    "parameters": 2e-3,  # norm, relative to that of the tensor's total update
    "state": 2e-4,  # norm, relative to that of the state
    "log Z": 1e-3,
    "scores": 1e-3,  # nats
}
CAPACITY = 64  # of scorers: a GPU then takes a launch per time step for several rows, as it does for many
END_OF_LINE = 0  # the most frequent word, so that minibatches start with it, too

VARIANTS: dict[str, dict[str, Any]] = {
    "neglm, each word with noise words of its own": {},
    "neglm-b, noise words shared by a step": {"loss": "neglm-b", "noise": "step"},
    "nce, noise words shared by a minibatch": {"loss": "nce", "noise": "batch", "reset_at_eos": True},
    "softmax": {"loss": "softmax"},
    "neglm, Adagrad": {"optimizer": "adagrad", "lr": 0.05},
    "neglm, exact Adam": {"optimizer": "adam", "adam": "exact", "lr": 0.01},
    "neglm, tied, with all kinds of dropout": {
        "tie": True, "dropout_kind": "variational", "embedding_dropout": 0.2, "recurrent_dropout": 0.4,
    },
    "softmax, tied": {"tie": True, "loss": "softmax"},
    "neglm, averaged": {"average": 1},
}  # fmt: skip


@dataclass(frozen=True)
class Check:
    """The result of a check: its errors by quantity, or why it failed."""

    name: str
    errors: dict[str, float] = field(default_factory=dict)
    failure: str = ""

    @property
    def good(self) -> bool:
        return not self.failure and all(error <= LIMITS[what] for what, error in self.errors.items())


def checked(name: str, function: Callable[[], dict[str, float]]) -> Check:
    """Run a check. An exception is a result, too, so that a report covers all checks."""
    try:
        return Check(name, function())
    except Exception as error:
        return Check(name, failure=described(error))


def described(error: Exception) -> str:
    """Describe an error in one line, without directories of this machine: reports are shared."""
    first = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {re.sub(r'(?:/[^/ ]+)+/', '…/', first)}"


def changed_settings(settings: Settings, changes: dict[str, Any]) -> Settings:
    """Return settings with the changes of a variant."""
    changed = replace(settings, **changes)
    return replace(changed, embedding=changed.hidden) if changed.tie else changed


class Task(NamedTuple):
    """A short training on a synthetic text."""

    settings: Settings
    words: int
    minibatches: int = 3  # full ones, before a shorter one
    scored: int = 24  # words

    @property
    def counts(self) -> np.ndarray:
        """Counts by Zipf's law."""
        return (1_000_000 / np.arange(1, self.words + 1)).astype(np.int64) + 1

    def text(self) -> InMemoryCorpus:
        settings = self.settings
        length = settings.batch * (self.minibatches * settings.bptt + max(settings.bptt // 3, 1)) + 1
        shares = np.cumsum(self.counts / self.counts.sum())
        return InMemoryCorpus(np.searchsorted(shares, np.random.default_rng(1).random(length)).clip(max=self.words - 1))

    def parameters(self) -> Parameters:
        return initial_parameters(Shape.of(self.words, self.settings), replace(self.settings, bias_init=0.0))


Maker = Callable[[Task], Device]


def on_cpu(task: Task) -> Device:
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
    """Train and score on two devices; return the errors of the first."""
    device, expected = make(task), make_expected(task)
    try:
        start, averaged = _parameters(expected), [device, expected] if task.settings.average else []
        for each in averaged:
            each.add_to_average(1)
        errors, _ = _train(device, expected, task, Progress())
        for each in averaged:
            each.add_to_average(2)
            each.swap_average()
        return errors | _training_errors(device, expected, start) | _scoring_errors(device, expected, task)
    finally:
        device.close()
        expected.close()


def compare_scores(task: Task, make: Maker, make_expected: Maker) -> dict[str, float]:
    """Score on two devices that are not prepared for training."""
    device, expected = make(task), make_expected(task)
    try:
        return _scoring_errors(device, expected, task)
    finally:
        device.close()
        expected.close()


def compare_resumed(task: Task, make: Maker, make_next: Maker) -> dict[str, float]:
    """Train an epoch on one device; then continue on both, the second from a checkpoint, and compare."""
    device, after = make(task), make_next(task)
    try:
        _, progress = _train(device, None, task, Progress())
        after.restore(materialize(device.parameters() | device.state()))
        start = _parameters(device)
        errors, _ = _train(after, device, task, progress)
        return errors | _training_errors(after, device, start)
    finally:
        device.close()
        after.close()


def compare_adapted(task: Task, make: Maker, make_expected: Maker) -> dict[str, float]:
    """Score and adapt to a text on two devices, by dynamic evaluation."""
    adapting = task._replace(settings=adaptation_settings(task.settings))
    device, expected = make(adapting), make_expected(adapting)
    try:
        inputs, targets = np.random.default_rng(3).integers(0, task.words, (2, 1, task.scored)).astype(np.int32)
        bptt = min(task.settings.bptt, max(task.scored // 3, 1))
        one, other = (
            AdaptiveScorer(each, bptt, Adaptation(0.1, 0.01)).score(inputs, targets) for each in (device, expected)
        )
        return {"scores": float(np.abs(one.log_probabilities - other.log_probabilities).max())}
    finally:
        device.close()
        expected.close()


def cpu_checks(task: Task) -> Iterator[Check]:
    """Check the CPU against the reference."""
    for name, changes in VARIANTS.items():
        changed = task._replace(settings=changed_settings(task.settings, changes))
        yield checked(name, partial(compare, changed, on_cpu, by_reference))
    exact = task._replace(settings=replace(task.settings, optimizer="adam", adam="exact", lr=0.01))
    yield checked("a training resumed from a checkpoint", partial(compare_resumed, exact, on_cpu, on_cpu))
    yield checked("dynamic evaluation", partial(compare_adapted, task, on_cpu, by_reference))


def _train(
    device: Device, expected: Device | None, task: Task, progress: Progress
) -> tuple[dict[str, float], Progress]:  # fmt: skip
    """Train one more epoch; compare with `expected`, if given."""
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
    """Return a copy of the current parameters."""
    return {name: array.copy() for name, array in materialize(device.parameters()).items()}


def _training_errors(device: Device, expected: Device, start: dict[str, np.ndarray]) -> dict[str, float]:
    """Return errors of parameters, states and log Z. That of a parameter is relative to its update since `start`."""
    found, wanted = materialize(device.parameters()), materialize(expected.parameters())
    parameters = [_relative(found[name] - wanted[name], wanted[name] - start[name]) for name in wanted]
    found, wanted = materialize(device.state()), materialize(expected.state())
    state = [_relative(found[name] - wanted[name], wanted[name]) for name in (HIDDEN_STATE, CELL_STATE)]
    log_z = float(np.abs(device.log_z() - expected.log_z()).max())
    return {"parameters": _worst(parameters), "state": _worst(state), "log Z": log_z}


def _worst(errors: list[float]) -> float:
    """Return the largest error; NaN if any is NaN, which Python's `max` may ignore."""
    return float(np.max(errors))


def _relative(error: np.ndarray, scale: np.ndarray) -> float:
    """Return the norm of an error, relative to that of another array."""
    absolute, whole_scale = (float(np.linalg.norm(array.astype(np.float64))) for array in (error, scale))
    return absolute / whole_scale if whole_scale else 0.0 if not absolute else np.inf


def _scoring_errors(device: Device, expected: Device, task: Task) -> dict[str, float]:
    """Compare scores of one text, in two calls that share a state, with words in between that only advance it, and of
    two texts side by side."""
    random = np.random.default_rng(2)
    half = task.scored // 2
    first, second = slice(0, half), slice(half, task.scored)
    inputs, targets = random.integers(0, task.words, (2, 2, task.scored)).astype(np.int32)
    scorers = [each.scorer(max(task.scored, CAPACITY)) for each in (device, expected)]
    errors = []
    for rows, passed, words in ((1, [], first), (1, [first, second, first], second), (2, [], first)):
        for scorer in scorers:
            if rows > 1:
                scorer.reset()
            for part in passed:
                scorer.advance(inputs[:1, part])
        one, other = (scorer.score(inputs[:rows, words], targets[:rows, words]) for scorer in scorers)
        errors += [float(np.abs(a - b).max()) for a, b in zip(one, other, strict=True)]
    return {"scores": _worst(errors)}
