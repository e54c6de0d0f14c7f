"""The tables on the pages of the recipes match their stored results."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
PAGES = {path.parent.name: path.parent / "README.md" for path in sorted(EXAMPLES.glob("*/results"))}
PAGES |= {"readme": EXAMPLES.parent / "README.md", "results": EXAMPLES / "results" / "README.md"}  # quote the others


def report(directory: Path, *arguments: str) -> str:
    """Run examples/report in this directory. Return its output."""
    command = [sys.executable, str(EXAMPLES / "report"), *arguments]
    done = subprocess.run(
        command, check=True, cwd=directory, stdout=subprocess.PIPE, env=os.environ | {"PYTHONUTF8": "1"}
    )
    return done.stdout.decode()


@pytest.mark.parametrize("recipe", PAGES)
def test_tables_match_the_results(recipe: str, tmp_path: Path) -> None:
    page = PAGES[recipe].read_text(encoding="utf-8")
    tables = report(tmp_path, recipe).split("\n\n")
    assert tables
    for table in tables:
        assert table.strip() in page
    for picture in tmp_path.iterdir():
        assert texts(picture) == texts(PAGES[recipe].with_name(picture.name))
        assert f"]({picture.name})" in page


def texts(picture: Path) -> list[str]:
    """Return all text in an SVG; paths differ slightly between versions of matplotlib."""
    elements = ET.parse(picture).getroot().iter("{http://www.w3.org/2000/svg}text")
    return sorted("".join(element.itertext()) for element in elements)


def test_figures_show_the_loss_of_the_last_epoch() -> None:
    """NEGLM's log has reports up to the seventh epoch only, and its epochs to the end."""
    log = (EXAMPLES / "ptb" / "results" / "1" / "neglm" / "log.json").read_text(encoding="utf-8").splitlines()
    last = [found for found in map(json.loads, log) if found["event"] == "epoch"][-1]
    assert f"NEGLM  {last['loss']:.2f}" in texts(EXAMPLES / "ptb" / "curves.svg")


def record(event: str, step: int, **fields: float) -> str:
    always = {"event": event, "epoch": 1 + step // 1001, "step": step, "words": 400 * step, "seconds": step / 10}
    return json.dumps(always | {"words_per_second": 4000, "learning_rate": 1.0} | fields) + "\n"


def test_a_report_has_the_best_epoch_and_the_test(tmp_path: Path) -> None:
    lines = [record("progress", step, loss=5.0, log_z_mean=0.0, log_z_std=0.1) for step in range(1, 1000)]
    lines += [
        record("epoch", 1000, loss=5.0, valid_perplexity=301.239),
        record("epoch", 2000, loss=4.9, valid_perplexity=310),
    ]
    (tmp_path / "nce.log").write_text("".join(lines))
    (tmp_path / "nce.json").write_text(json.dumps({"perplexity": 287.126, "file": "/a/path/of/mine", "seconds": 3}))
    (tmp_path / "speed.jsonl").write_text(
        "".join(
            json.dumps({"loss": loss, "shape": "1×64", "words_per_second": rate}) + "\n"
            for loss, rate in (("nce", 900), ("nce", 1000), ("nce", 5000), ("softmax", 250))
        )
    )
    printed = report(tmp_path, "wikitext-2", ".")
    assert "| NCE | 2 | 301.24 | **287.13** | 1,000 (4.0 ×) | not measured yet |" in printed
    assert "| NEGLM | not run yet | not run yet | not run yet |" in printed
    assert (tmp_path / "curves.svg").read_bytes().startswith(b"<?xml")


def test_the_best_learning_rate_of_each_loss(tmp_path: Path) -> None:
    """Means over seeds; unfinished trainings are left out."""
    for name, perplexity in {
        "nce-0.002-1": 90.0,
        "nce-0.002-2": 92.0,
        "nce-0.01-1": 90.5,
        "neglm-b-0.01-1": 80,
    }.items():
        lines = record("epoch", 1000, loss=5.0, valid_perplexity=perplexity, seconds=70) + record("end", 1000)
        (tmp_path / f"{name}.log").write_text(lines)
    (tmp_path / "neglm-0.01-1.log").write_text(record("progress", 500, loss=5.0))
    for name in ("nce-0.002-1", "nce-0.01-1", "neglm-b-0.01-1"):
        (tmp_path / f"{name}.json").write_text(json.dumps({"perplexity": 95.0}))
    printed = report(tmp_path, "one-pass", ".")
    assert "| schedule | loss | 0.002 | 0.01 |" in printed
    name = tmp_path.name
    assert f"| {name} | NCE | **91.00 (90.00–92.00)** | 90.50 |" in printed  # chosen with the first seed
    assert f"| {name} | NEGLM-B | not run yet | **80.00** |" in printed
    assert f"| {name} | NEGLM | not run yet | not run yet |" in printed
    assert f"| {name} | NCE | 0.002 | 1 | **95.00** | 70 |" in printed
    assert f"| {name} | NEGLM | 0" not in printed


def test_logs_are_thinned_evenly_without_machine_data(tmp_path: Path) -> None:
    code = (
        "import json, sys; sys.path.insert(0, sys.argv[1]); import made; from pathlib import Path\n"
        "log = made.read_log(Path('log')); again = Path('again'); again.write_bytes(made.as_log(log))\n"
        "assert made.as_log(made.read_log(again)) == made.as_log(log)\n"
        "print(json.dumps([log.records, made.read_json(Path('json'))]))"
    )
    steps = [*range(1, 1000), *range(1002, 1060)]  # of the first epoch, and of the second
    lines = [record("progress", step, loss=5.0) for step in steps]
    lines.insert(999, record("epoch", 1000, loss=5.0))
    (tmp_path / "log").write_text("".join(lines))
    (tmp_path / "json").write_text(json.dumps({"perplexity": 2.0, "file": "/a/path/of/mine", "model": "mine"}))
    command = [sys.executable, "-c", code, str(EXAMPLES / "report")]
    records, result = json.loads(subprocess.run(command, check=True, cwd=tmp_path, stdout=subprocess.PIPE).stdout)
    steps = [found["step"] for found in records]
    assert steps == [*range(17, 1000, 17), 1000, *range(1002, 1060)]
    assert result == {"perplexity": 2.0}
