"""Signals are raised, noted or ignored, as the place needs it."""

import os
import signal
from collections.abc import Iterator

import pytest

from neglm_cli.cli.signals import Terminated, as_exception, calm, noted, undisturbed, watch

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def watched() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in NUMBERS}
    watch()
    yield
    calm()
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("number", "kind"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated), (signal.SIGHUP, Terminated)]
)
def test_a_signal_is_raised(number: signal.Signals, kind: type[BaseException]) -> None:
    with pytest.raises(kind) as raised:
        os.kill(os.getpid(), number)
    assert raised.value.args == as_exception(number).args


def test_signals_are_noted_and_then_ignored() -> None:
    with noted() as signals:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)
    assert signals == [signal.SIGINT, signal.SIGTERM]


def test_nothing_noted_leaves_signals_as_they_were() -> None:
    with noted() as signals, undisturbed():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signals == []
    with pytest.raises(Terminated):
        os.kill(os.getpid(), signal.SIGTERM)


def test_who_ignores_a_signal_goes_on_ignoring_it() -> None:
    """As nohup has it."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    watch()
    with noted() as signals:
        os.kill(os.getpid(), signal.SIGHUP)
    assert signals == []
    os.kill(os.getpid(), signal.SIGHUP)
