"""A machine with software GPUs. Commands are forked from a process that has imported numba-cuda: see tests/warm.py."""

from pathlib import Path
from subprocess import CompletedProcess

from tests.conftest import users_environment
from tests.warm import Warm

READ_LATE = ("PATH", "SOFTWARE_GPU")  # the beginnings of the names of variables that nothing reads at startup


class Machine:
    def __init__(self, driver: dict[str, str]) -> None:
        """driver: the variables that `build` returns."""
        self.environment = users_environment() | driver | {"PYTHONWARNINGS": "ignore"}
        self._started: dict[tuple[tuple[str, str], ...], Warm] = {}

    def run(self, arguments: tuple[str, ...], directory: Path, **variables: str) -> CompletedProcess[bytes]:
        late = {name: value for name, value in variables.items() if name.startswith(READ_LATE)}
        early = tuple(sorted(variables.items() - late.items()))
        if early not in self._started:
            self._started[early] = Warm(self.environment | dict(early), for_gpu=True)
        return self._started[early].run(list(arguments), directory, variables=late)

    def close(self) -> None:
        for each in self._started.values():
            each.close()
