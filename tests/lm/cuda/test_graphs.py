"""CUDA graphs, captured and launched on the software GPU, give the bytes of plain launches."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from neglm_cli.lm.cuda.graphs import GraphError, capture
from tests.conftest import users_environment
from tests.lm.cuda.graph_run import SHORT
from tests.lm.cuda.software.build import build, missing

needs_software = pytest.mark.skipif(bool(missing()), reason=missing())

BUFFERS = 4  # each has graphs of its own
MANY = 10  # launches


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    kernels = tmp_path_factory.getbasetemp().parent / "software-gpu-kernels"
    return build(tmp_path_factory.mktemp("gpu"), kernels)


def trained(gpu: dict[str, str], fault: str = "", **schedule: str) -> dict[str, Any]:
    file = Path(gpu["LD_LIBRARY_PATH"].split(os.pathsep)[0]) / "fault"
    file.write_text(fault, encoding="ascii")
    environment = users_environment() | gpu | {"SOFTWARE_GPU_FAULT": str(file), "PYTHONWARNINGS": "ignore"} | schedule
    environment["PYTHONPATH"] = str(Path(__file__).parents[3])
    done = subprocess.run([sys.executable, "-m", "tests.lm.cuda.graph_run"], capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@needs_software
def test_one_launch_per_minibatch_and_the_same_bytes(gpu: dict[str, str]) -> None:
    """One launch from the third use of a buffer on: the first compiles, the second captures. Other shapes, and drivers
    that cannot capture, use plain launches."""
    found = trained(gpu, SOFTWARE_GPU_STREAMS="late")
    assert found["launches"][SHORT] > MANY
    assert set(found["launches"][SHORT + 2 + 2 * BUFFERS :]) == {1}
    for fault in ("no graphs", "no capture"):
        plain = trained(gpu, fault)
        assert min(plain["launches"]) > MANY
        assert plain["digest"] == found["digest"]


class FakeDriver:
    """Lists the calls of `capture`, and fails in `failing`."""

    CUstream = int
    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED=2)

    def __init__(self, failing: str = "") -> None:
        self.calls: list[str] = []
        for name in ("cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphInstantiate", "cuGraphDestroy"):
            setattr(self, name, lambda *_, name=name: self._called(name, name == failing))

    def _called(self, name: str, fails: bool) -> tuple[Any, ...]:
        self.calls.append(name)
        return (SimpleNamespace(name="CUDA_ERROR_UNKNOWN"), None) if fails else (0, "graph")


@pytest.mark.parametrize(
    ("failing", "raised", "expected", "calls"),
    [
        ("cuGraphInstantiate", None, GraphError, ["cuStreamEndCapture", "cuGraphInstantiate", "cuGraphDestroy"]),
        ("cuStreamEndCapture", None, GraphError, ["cuStreamEndCapture"]),
        ("cuStreamEndCapture", ValueError(), GraphError, ["cuStreamEndCapture"]),
        ("", ValueError(), GraphError, ["cuStreamEndCapture", "cuGraphDestroy"]),
        ("", KeyboardInterrupt(), KeyboardInterrupt, ["cuStreamEndCapture", "cuGraphDestroy"]),
    ],
)
def test_a_failed_capture_ends(
    monkeypatch: pytest.MonkeyPatch, failing: str, raised: BaseException | None, expected: type, calls: list[str]
) -> None:
    """Afterwards the stream takes launches again, also if a signal interrupted the capture."""
    driver = FakeDriver(failing)
    monkeypatch.setitem(sys.modules, "cuda.bindings", SimpleNamespace(driver=driver))

    def work() -> None:
        if raised is not None:
            raise raised

    gpu: Any = SimpleNamespace(stream_handle=7)
    with pytest.raises(expected):
        capture(gpu, work)
    assert driver.calls == ["cuStreamBeginCapture", *calls]
