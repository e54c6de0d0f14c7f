import contextlib
import getpass
import json
import os
import socket
from collections.abc import Callable, Iterator
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from neglm_cli.cli import doctor, doctor_compile, doctor_machine, doctor_run
from neglm_cli.cli.doctor_machine import BROKEN, MISSING, OK, Found, home_as_tilde
from neglm_cli.cli.main import run
from neglm_cli.kernels.cache import kernel_directory
from neglm_cli.lm.checks import Check, Task
from neglm_cli.lm.cuda.checks import Sizes
from neglm_cli.lm.cuda.estimate import least_milliseconds
from neglm_cli.lm.devices import UnusableGpuError, open_gpu
from tests.conftest import Neglm, one_sentence

RATE = {
    "words_per_second": 11_000, "training_flops": 1e11, "product_flops": {"NumPy": 2e11}, "fastest_product": "NumPy",
    "share": 0.5,
}  # fmt: skip
GPU_RATE = {
    "words_per_second": 150_000, "training_flops": 2e12, "product_flops": {"tiles of 64": 5e12, "cuBLAS": 8e12},
    "fastest_product": "cuBLAS", "share": 0.25, "launches_per_minibatch": 27.0,
    "kernels": {
        "cuBLAS": {"launches": 6.0, "milliseconds": 0.75}, "backward": {"launches": 2.0, "milliseconds": 0.5},
    },
}  # fmt: skip


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run the command in this process, where parts of it can be replaced; return its output."""
    monkeypatch.setattr("neglm_cli.cli.main.watch", lambda: None)
    monkeypatch.setattr(doctor_run, "cpu_checks", lambda task: iter([Check("all", {"loss": 1e-8})]))
    monkeypatch.setattr(doctor_machine, "_mpi", lambda: Found("MPI", MISSING, ""))

    def call(*arguments: str, code: int = 0) -> str:
        assert run(["doctor", *arguments]) == code
        return capsys.readouterr().out

    return call


def test_what_there_is_and_that_it_works(neglm: Neglm, tmp_path: Path) -> None:
    """Run the real checks in a separate process; the report does not identify the machine's owner."""
    cache = {"NEGLM_CACHE": str(tmp_path / "cache" / "deep"), "HOME": str(tmp_path), "USER": "somebody"}
    kernels = {"NUMBA_CACHE_DIR": _kernels()}
    report = neglm("doctor", "--quick", "--device", "cpu", **cache, **kernels).stdout.decode()
    for expected in (
        "ok       Python ",
        "ok       Numba ",
        "ok       BLAS ",
        "missing  GPU ",
        "ok       softmax: loss ",
    ):
        assert expected in report
    assert "cache           ~/cache/deep is writable" in report
    assert report.splitlines()[-1] == "verdict: neglm works on the CPU"
    assert str(tmp_path) not in report
    for name in (socket.gethostname(), getpass.getuser(), "somebody"):
        assert name not in report.replace("neglm", "").split()


def _kernels() -> str:
    """The value of NUMBA_CACHE_DIR that has these kernels in it."""
    return os.path.dirname(kernel_directory() or "")


def test_json(here: Callable[..., str]) -> None:
    report = json.loads(here("--quick", "--device", "cpu", "--json"))
    rows = {row["name"]: row for row in report["machine"]}
    assert {"Python", "Numba", "CPU", "BLAS", "memory", "cache", "MPI", "plots", "cuBLAS", "GPU"} == set(rows)
    assert rows["Python"]["state"] == OK
    assert rows["GPU"]["what"] == "not looked for: --device cpu"
    assert report["checks"] == [{"device": "CPU", "name": "all", "good": True, "errors": {"loss": 1e-8}, "failure": ""}]
    assert report["good"] is True
    assert report["rates"] == {}


def test_speed_is_measured(here: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_run, "MINIBATCHES", 1)
    report = json.loads(here("--device", "cpu", "--json"))
    rate = report["rates"]["CPU"]
    assert rate["words_per_second"] > 10
    flop_per_word = 6 * (2 * 600 * 1200 + 101 * 300)
    assert rate["training_flops"] == pytest.approx(rate["words_per_second"] * flop_per_word, rel=0.05)
    assert rate["share"] == pytest.approx(rate["training_flops"] / rate["product_flops"]["NumPy"], rel=0.01)
    assert report["verdict"] == f"neglm works on the CPU: {rate['words_per_second']:,} words/s on the CPU"


@pytest.mark.parametrize(
    "check",
    [Check("sums", {"loss": 1.0}), Check("sums", failure="ValueError: no"), Check("sums", {"loss": float("nan")})],
)
def test_what_does_not_work(here: Callable[..., str], monkeypatch: pytest.MonkeyPatch, check: Check) -> None:
    monkeypatch.setattr(doctor_run, "cpu_checks", lambda task: iter([Check("fine"), check]))
    report = here("--quick", "--device", "cpu", code=1)
    assert "  ok       fine\n" in report
    assert "  broken   sums: " in report
    assert report.splitlines()[-1] == "verdict: failed: sums; please report it with this text"
    assert json.loads(here("--quick", "--device", "cpu", "--json", code=1))["good"] is False


def test_a_cache_that_cannot_be_written(here: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEGLM_CACHE", "/dev/null/cache")
    report = here("--quick", "--device", "cpu", code=1)
    assert "broken   cache           /dev/null/cache cannot be written" in report
    assert "failed: cache;" in report


def test_a_gpu_that_is_asked_for_must_be_there(neglm: Neglm) -> None:
    with contextlib.suppress(UnusableGpuError):
        open_gpu("auto")
        pytest.skip("there is a GPU")
    result = neglm("doctor", "--device", "cuda", code=1)
    assert "missing  GPU " in result.stdout.decode()
    assert "verdict" not in result.stdout.decode()
    assert one_sentence(result.stderr).startswith("neglm: --device cuda cannot be used: ")
    assert "is none of auto, cpu" in one_sentence(neglm("doctor", "--device", "gpu", code=2).stderr)


def test_the_simulator_is_no_gpu(neglm: Neglm) -> None:
    result = neglm("doctor", "--device", "cuda", code=1, NUMBA_ENABLE_CUDASIM="1")
    using, sentence = result.stderr.decode().splitlines()
    assert using == "using Numba's simulator (cuda:0)"
    assert sentence == "neglm: Numba's CUDA simulator would take days: unset NUMBA_ENABLE_CUDASIM"


class Gpu:
    number, name, capability, multiprocessors, driver, clock = 0, "A GPU", (9, 0), 132, "13.0", 2e9

    def memory(self) -> tuple[int, int]:
        return 70 * 10**9, 80 * 10**9


def test_a_report_with_a_gpu(here: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks have their own tests; this covers how their results are reported."""

    def gpu_checks(*_: Any) -> Iterator[Check]:
        yield Check("products", {"product": 1e-7})
        yield Check("steps", {"product": 1e-3})

    def gpu_rates(gpu: Gpu, task: Task, note: Callable[[str], None], best: Any) -> dict[str, Any]:
        assert (task.words, task.settings.hidden) == (10_000, 300)
        return GPU_RATE

    monkeypatch.setattr(doctor, "find_gpu", lambda device: Gpu())
    monkeypatch.setattr(doctor_run, "examinable", lambda gpu: gpu)
    monkeypatch.setattr("neglm_cli.lm.cuda.checks.sizes_for", lambda gpu, threads: Sizes())
    monkeypatch.setattr("neglm_cli.lm.cuda.checks.all_checks", gpu_checks)
    monkeypatch.setattr("neglm_cli.lm.cuda.rates.rates", gpu_rates)
    monkeypatch.setattr("neglm_cli.lm.cuda.checks.describe_plans", lambda *_: "one after the other")
    monkeypatch.setattr(doctor_run, "cpu_rates", lambda task: RATE)
    least, report = least_milliseconds(132, 2e9), here(code=1)
    for expected in (
        "ok       GPU             A GPU, capability 9.0, 132 multiprocessors, 70.0 GB free of 80.0 GB, driver ",
        "  ok       products: product 1e-07",
        "  broken   steps: product 1e-03",
        "training                 150,000 words/s",
        "share                    25% of cuBLAS",
        "launches of a minibatch  27",
        "steps                    one after the other",
        "  cuBLAS                 0.750 ms, launches 6\n",
        f"  backward               0.500 ms, launches 2, estimated: at least {least['backward']:.3f} ms\n",
    ):
        assert expected in report
    monkeypatch.setattr("neglm_cli.lm.cuda.checks.all_checks", lambda *_: iter([Check("products")]))
    assert here().splitlines()[-1] == (
        "verdict: neglm works on the CPU and the GPU: 11,000 words/s on the CPU, 150,000 words/s on the GPU"
    )


def test_a_gpu_that_cannot_be_measured(here: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The report is still printed, also if the first product fails."""
    monkeypatch.setattr(doctor, "find_gpu", lambda device: Gpu())
    monkeypatch.setattr(doctor_run, "examinable", lambda gpu: gpu)
    monkeypatch.setattr("neglm_cli.lm.cuda.checks.all_checks", lambda *_: iter([Check("products")]))
    monkeypatch.setattr(doctor_run, "cpu_rates", lambda task: RATE)
    report = here(code=1)
    assert "  broken   the first product: AttributeError: 'Gpu' object has no attribute " in report
    assert "  ok       products\n" in report
    assert "  broken   speed: AttributeError: 'Gpu' object has no attribute " in report


def test_home_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere/me")
    assert home_as_tilde(Path("/somewhere/me/.cache/neglm")) == "~/.cache/neglm"
    assert home_as_tilde(Path("/somewhere/measured")) == "/somewhere/measured"


def test_mpi(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With two fakes of mpi4py: one that works and names its vendor, and one that finds no library."""
    package = tmp_path / "mpi4py"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (package / "MPI.py").write_text("def Get_library_version():\n    return 'Open MPI v5.0.1, package: me@host\\n'\n")
    assert doctor_machine._mpi() == Found("MPI", OK, f"mpi4py {version('mpi4py')}, Open MPI v5.0.1")
    (package / "MPI.py").write_text("raise RuntimeError('cannot load MPI library')\n")
    assert doctor_machine._mpi().state == BROKEN


def test_all_kernels_are_compiled_beforehand(neglm: Neglm, workplace: Path) -> None:
    """Afterwards, no command compiles: none of the files is younger."""
    assert neglm("doctor", "--compile").stdout == b""
    directory = Path(kernel_directory() or "")
    before = set(directory.iterdir())
    Path("text.txt").write_text(doctor_compile.TEXT)
    Path("pairs.tsv").write_text(doctor_compile.PAIRS)
    for command in chain(*doctor_compile.STAGES):
        assert b"compiling" not in neglm(*command).stderr
    assert set(directory.iterdir()) == before


def test_a_command_that_fails_to_compile(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(doctor_compile, "STAGES", ((("vocab", "missing.txt"),),))
    assert run(["doctor", "--compile"]) == 1
    assert capsys.readouterr().err.startswith("neglm: `neglm vocab missing.txt` failed: neglm: ")
