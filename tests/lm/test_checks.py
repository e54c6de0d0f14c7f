"""The checks of `neglm doctor` find errors, without false positives."""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from neglm_cli.lm.checks import (
    END_OF_LINE,
    VARIANTS,
    Check,
    Task,
    by_reference,
    checked,
    compare,
    compare_resumed,
    cpu_checks,
    described,
    on_cpu,
)
from neglm_cli.lm.cpu.device import CpuDevice
from neglm_cli.lm.device import Device
from tests.lm.making import SMALL

TASK = Task(SMALL, 40)
ADAM = TASK._replace(settings=replace(SMALL, optimizer="adam", adam="exact", lr=0.01))


def test_the_cpu_passes() -> None:
    found = list(cpu_checks(TASK))
    assert len(found) == len(VARIANTS) + 2  # a training that is resumed, and dynamic evaluation
    assert [check for check in found if not check.good] == []
    assert all(check.errors for check in found)


@pytest.mark.parametrize(("changes", "wrong"), [({"dropout": 0.4}, "loss"), ({"clip": 0.98}, "parameters")])
def test_different_training_is_detected(changes: dict[str, float], wrong: str) -> None:
    other = TASK._replace(settings=replace(SMALL, **changes))  # type: ignore[arg-type]
    check = Check("", compare(TASK, lambda _: on_cpu(other), by_reference))
    assert not check.good
    assert not Check("", {wrong: check.errors[wrong]}).good


class Forgetful(CpuDevice):
    """A device that restores all tensors except one."""

    forgotten = ""

    def restore(self, tensors: Mapping[str, np.ndarray]) -> None:
        own = {name: np.zeros_like(array) for name, array in tensors.items() if name == self.forgotten}
        super().restore({**tensors, **own})


@pytest.mark.parametrize(
    "forgotten", ["", "hidden_state", "cell_state", "exp_avg_sq.output", "exp_avg.lstm.1.bias", "embedding"]
)
def test_incomplete_states_are_detected(forgotten: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Forgetful, "forgotten", forgotten)

    def forgetful(task: Task) -> Device:
        device = Forgetful(task.parameters(), task.settings, task.counts, END_OF_LINE)
        device.prepare_training()
        return device

    assert Check("", compare_resumed(ADAM, on_cpu, forgetful)).good is (not forgotten)


def test_a_state_moves_from_the_reference_to_the_cpu_and_back() -> None:
    assert Check("", compare_resumed(ADAM, by_reference, on_cpu)).good
    assert Check("", compare_resumed(ADAM, on_cpu, by_reference)).good


def test_nan_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not Check("", {"loss": math.nan}).good

    def spoiled(task: Task) -> Device:
        device = on_cpu(task)
        good = device.parameters
        monkeypatch.setattr(device, "parameters", lambda: {**good(), "output_bias": np.full(task.words, np.nan)})
        return device

    assert not Check("", compare(TASK, spoiled, by_reference)).good


def test_errors_are_failures_without_directories() -> None:
    def fail() -> dict[str, float]:
        raise ValueError("no /home/someone/lib/thing.so here\nand more")

    check = checked("a name", fail)
    assert not check.good
    assert check.failure == "ValueError: no …/thing.so here"
    assert described(ValueError()) == "ValueError: "
