"""Shared code of the benchmarks: rounds, ratios, results as JSON lines, missing peers."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neglm_cli.lm.checks import END_OF_LINE, Task, by_reference, compare
from neglm_cli.lm.device import Device
from neglm_cli.settings.train_lm import Settings


@pytest.fixture
def side_by_side(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(Path(__file__).parent.parent / "benchmarks")
    import side_by_side

    return side_by_side


@pytest.fixture
def page(side_by_side: Any) -> Any:
    import page

    return page


def results_of(side_by_side: Any, page: Any, path: Path) -> list[Any]:
    """Run three rounds of two contestants with decreasing rates."""
    turns = []

    def contestant(name: str, rates: list[float]) -> Any:
        def run() -> float:
            turns.append(name)
            return rates[turns.count(name) - 1]

        return run

    contestants = {"neglm": contestant("neglm", [8.0, 9.0, 2.0]), "other 1.0": contestant("other", [4.0, 3.0, 2.0])}
    options = argparse.Namespace(rounds=3, json=path)
    side_by_side.compare("job", "case", "words/s", contestants, {"other 1.0"}, options)
    assert turns == ["neglm", "other", "other", "neglm", "neglm", "other"]
    return list(page.read(path))


def test_ratios_are_within_rounds(
    side_by_side: Any, page: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (result,) = results_of(side_by_side, page, tmp_path / "results")
    assert result.ratios == [2, 3, 1]
    assert "neglm is 2.00 (1.00 to 3.00) times as fast as other 1.0" in capsys.readouterr().out


def test_the_page_has_every_result(side_by_side: Any, page: Any, tmp_path: Path) -> None:
    results = results_of(side_by_side, page, tmp_path / "results")
    text = page.page(results, small=False)
    row = "| job: case | `neglm` | other 1.0 | words/s | 8.00 (2.00 to 9.00) | 3.00 (2.00 to 4.00) | 2.00 (1.00 to 3.00"
    assert row in text
    assert "mean nothing" in page.page(results, small=True)
    labels = [label.get_text() for label in page.picture(results).axes[0].get_yticklabels()]
    assert labels == ["job, case / other 1.0"]


def test_missing_peers_are_named_with_an_install_command(
    side_by_side: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(side_by_side.INSTALL, "no_such_package", "no-such-package==1")
    assert side_by_side.find_peer("no_such_package", "Nothing", sys.executable) is None
    assert capsys.readouterr().out == "skipping Nothing, which is not installed: pip install no-such-package==1\n\n"
    found = side_by_side.find_peer("numpy", "NumPy", sys.executable)
    assert found.name.startswith("NumPy 2.")
    assert found.python == sys.executable


def test_the_busiest_loop_of_a_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent.parent / "benchmarks")
    import gpu_sass

    code = """
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/                   IADD3 R2, R2, 0x1, RZ ;
.L_x_2:
        /*0020*/                   LDS R3, [R2] ;
        /*0030*/                   FFMA R4, R3, R5, R4 ;
        /*0040*/              @!P0 FFMA R4, R3, R5, R4 ;
        /*0050*/               @P0 BRA `(.L_x_2) ;
        /*0060*/               @P1 BRA `(.L_x_1) ;
.L_x_3:
        /*0070*/                   BRA `(.L_x_3) ;
    """
    loop = gpu_sass.busiest_loop(code)
    assert loop is not None
    assert loop.size == 4
    assert loop.kinds == {"shared": 1, "FFMA": 2, "other": 1}
    assert loop.share == 0.5
    assert gpu_sass.busiest_loop("        /*0000*/  EXIT ;") is None


def test_names_of_kernels_in_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent.parent / "benchmarks")
    import gpu_measure

    lines = "_ZN1a3oldB1 9 9 9 9 0.1\nMARK\n" + 2 * "_ZN9neglm_cli2lm4gemm12_3clocals_3e4gemmB2v6 64 10 3 2 0.1\n"
    counts = {"launches": 2, "threads": 128, "instructions": 20, "multiply_adds": 6, "accesses": 4}
    assert gpu_measure.by_kernel(lines) == {"gemm": counts}


@pytest.mark.parametrize("loss", ["neglm", "softmax"])
def test_the_reference_in_lower_precision(monkeypatch: pytest.MonkeyPatch, loss: str) -> None:
    """Its float32 is the reference's; bf16 is off by more, and trains nearly the same model."""
    monkeypatch.syspath_prepend(Path(__file__).parent.parent / "benchmarks")
    import lm_precision

    assert [float(x) for x in lm_precision.rounded(np.array([1 + 2**-8, -1 - 3 * 2**-8]), 7)] == [1, -1 - 2**-6]
    settings = Settings(k=3, hidden=5, embedding=4, batch=2, bptt=3, init_range=0.5, init_output=0.5, loss=loss)

    def rounding(task: Task) -> Device:
        device = lm_precision.RoundedReference(task.parameters(), task.settings, task.counts, END_OF_LINE)
        device.prepare_training()
        return device

    tasks = [Task(replace(settings, precision=precision), 20) for precision in ("fp32", "bf16")]
    fp32, bf16 = (compare(task, rounding, by_reference)["parameters"] for task in tasks)
    assert fp32 < 1e-5
    assert 1e-3 < bf16 < 0.1
