"""Teams of threads."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from neglm_cli.lm.cpu import arrays
from neglm_cli.lm.cpu.threads import Team, Worker
from neglm_cli.lm.parameters import Shape


@pytest.fixture
def team() -> Iterator[Team]:
    team = Team(arrays.workers(arrays.partition(Shape(9, 4, 4, 1), 3)))
    yield team
    team.close()


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("frequent_switches")
def test_tasks_of_several_callers_have_one_order(team: Team) -> None:
    seen: list[list[int]] = [[] for _ in team.workers]

    def task(number: int, worker: Worker) -> None:
        seen[worker.thread].append(number)

    with ThreadPoolExecutor(4) as callers:
        list(callers.map(lambda number: team.results(task, number), range(2000)))
    assert sorted(seen[0]) == list(range(2000))
    assert seen[0] == seen[1] == seen[2]
