"""The parts of a report, and helpers of all reports."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from neglm_cli.pictures.log import TrainingLog

EXAMPLES = Path(__file__).resolve().parent.parent
MOST_REPORTS = 60  # kept in logs, of the first epoch and of all others
OF_THIS_MACHINE = ("file", "model", "seconds", "words_per_second")  # fields that depend on the machine


class Made(NamedTuple):
    tables: dict[str, str]  # Markdown, by the name in the comments of README.md
    pictures: dict[str, bytes]  # SVG, by file name
    results: dict[str, bytes]  # the data that the report was made from, by path


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:,.{digits}f}".replace("-", "−")


def percentage(value: float | None) -> str:
    return "–" if value is None else f"{number(100 * value, 1)} %"


def read_json(path: Path) -> dict[str, Any]:
    """Read the JSON that a command printed, without fields that depend on the machine."""
    return _portable(json.loads(path.read_text(encoding="utf-8")))


def read_test(path: Path) -> dict[str, Any]:
    """Read the result of the text of `neglm eval --test --json`, or one that was kept in results/."""
    found = json.loads(path.read_text(encoding="utf-8"))
    return _portable(found["test"][0] if "test" in found else found)


def _portable(result: dict[str, Any]) -> dict[str, Any]:
    portable = {name: value for name, value in result.items() if name not in OF_THIS_MACHINE}
    if portable.get("test_time") and portable["test_time"]["tuned_on"]:
        portable["test_time"] = portable["test_time"] | {"tuned_on": Path(portable["test_time"]["tuned_on"]).name}
    return portable


class Compared(NamedTuple):
    """A row of the results of `make bench`: medians."""

    job: str
    ours: str
    peer: str
    unit: str
    our_rate: str
    peers_rate: str
    ratio: str
    rounds: str


def read_benchmarks() -> list[Compared]:
    page = (EXAMPLES.parent / "benchmarks" / "results" / "bench.md").read_text(encoding="utf-8")
    _, _, *lines = [line for line in page.splitlines() if line.startswith("|")]
    return [Compared(*(cell.strip().partition(" (")[0] for cell in line.strip("|").split("|"))) for line in lines]


def as_json(result: Mapping[str, Any]) -> bytes:
    return json.dumps(result, indent=1, ensure_ascii=False).encode() + b"\n"


def read_log(path: Path) -> TrainingLog:
    """Read a log, with all reports on epochs, and a thinned selection of the others: of the first epoch, and of the
    rest."""
    log = TrainingLog.parse(path.read_bytes(), path.name)
    between = [record for record in log.records if record["event"] == "progress"]
    first, later = ([r for r in between if (r["epoch"] == 1) is is_first] for is_first in (True, False))
    kept = {id(record) for record in [*_some(first), *_some(later)]}
    return TrainingLog(
        log.name, [record for record in log.records if record["event"] != "progress" or id(record) in kept]
    )


def _some(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Keep every n-th record, at most MOST_REPORTS."""
    every = -(-len(records) // MOST_REPORTS) or 1
    return records[every - 1 :: every]


def as_log(log: TrainingLog) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in log.records)


def curves(logs: Mapping[str, TrainingLog]) -> bytes:
    """Plot learning curves with `neglm plot`, labeled by name."""
    with tempfile.TemporaryDirectory() as directory:
        files = [Path(directory) / f"{i}.log" for i in range(len(logs))]
        for file, log in zip(files, logs.values(), strict=True):
            file.write_bytes(as_log(log))
        command = [sys.executable, "-m", "neglm_cli", "plot", *map(str, files), "--quiet", "-o", "-", "--label", *logs]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
