"""examples/large-vocabulary: words/s and memory over the size of the vocabulary."""

import json
from pathlib import Path
from statistics import median
from typing import Any

from drawn import Line, Panel, picture
from made import Made, number, table

LOSSES = {"neglm": "NEGLM", "softmax": "softmax"}


def make(directories: list[Path]) -> Made:
    data = (directories[0] / "speed.jsonl").read_bytes()
    runs: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for line in data.splitlines():
        run = json.loads(line)
        runs.setdefault((run["loss"], int(run["vocabulary"])), []).append(run)
    sizes = sorted({size for _, size in runs})

    def figure(loss: str, size: int, field: str, unit: float = 1.0) -> float:
        return median(run[field] for run in runs[loss, size]) / unit

    rows = []
    for size in sizes:
        for loss, title in LOSSES.items():
            if (loss, size) not in runs:
                rows.append([f"{size:,}", title, *["not run"] * 3])
                continue
            megabytes = (number(figure(loss, size, field, 1e6), 0) for field in ("estimated_memory", "peak_memory"))
            rows.append([f"{size:,}", title, number(figure(loss, size, "words_per_second"), 0), *megabytes])
    panels = []
    for title, field, unit in (("Words per second", "words_per_second", 1.0), ("Peak memory, GB", "peak_memory", 1e9)):
        lines = []
        for loss, name in LOSSES.items():
            measured = [size for size in sizes if (loss, size) in runs]
            values = [figure(loss, size, field, unit) for size in measured]
            lines.append(Line(name, measured, values, gray=loss == "softmax"))
        panels.append(Panel(title, "words in the vocabulary", lines, log_x=True, log_y=True))
    head = ["vocabulary", "loss", "words/s", "estimated memory (--dry-run), MB", "peak memory, MB"]
    return Made({"sizes": table(head, rows)}, {"sizes.svg": picture(panels)}, {"speed.jsonl": data})
