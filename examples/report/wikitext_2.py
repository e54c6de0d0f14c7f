"""examples/wikitext-2: quality and speed of all losses."""

import json
from pathlib import Path
from statistics import median

from made import Made, as_json, as_log, curves, number, read_log, read_test, table

LOSSES = {
    "neglm": "NEGLM",
    "neglm-z": "NEGLM, log Z = log k",
    "neglm-b": "NEGLM-B",
    "neglm-b-z": "NEGLM-B, log Z = log k",
    "nce": "NCE",
    "softmax": "softmax",
}
SAME_SPEED = {"neglm-z": "as NEGLM", "neglm-b-z": "as NEGLM-B"}  # not timed: a constant in the scores takes no time
SHAPES = ("1×64", "2×300")  # timed


def make(directories: list[Path]) -> Made:
    directory = directories[0]
    results, logs = {}, {}
    rates: dict[tuple[str, str], list[float]] = {}
    if (directory / "speed.jsonl").exists():
        results["speed.jsonl"] = (directory / "speed.jsonl").read_bytes()
        for line in results["speed.jsonl"].splitlines():
            rate = json.loads(line)
            rates.setdefault((rate["loss"], rate["shape"]), []).append(rate["words_per_second"])
    rows = []
    for loss, title in LOSSES.items():
        row = [title, "not run yet", "not run yet", "not run yet"]
        if (directory / f"{loss}.log").exists():
            log = logs[title] = read_log(directory / f"{loss}.log")
            results[f"{loss}.log"] = as_log(log)
            validations = [record["valid_perplexity"] for record in log.records if record["event"] == "epoch"]
            row[1:3] = str(len(validations)), number(min(validations, default=None))
        if (directory / f"{loss}.json").exists():
            found = read_test(directory / f"{loss}.json")
            results[f"{loss}.json"] = as_json(found)
            row[3] = f"**{number(found['perplexity'])}**"
        rows.append(row + [SAME_SPEED.get(loss) or _rate(rates, loss, shape) for shape in SHAPES])
    head = ["", "epochs", "validation", "test", *(f"words/s, {shape}" for shape in SHAPES)]
    return Made({"losses": table(head, rows)}, {"curves.svg": curves(logs)} if logs else {}, results)


def _rate(rates: dict[tuple[str, str], list[float]], loss: str, shape: str) -> str:
    """Format the median, and its ratio to that of the softmax."""
    if (loss, shape) not in rates:
        return "not measured yet"
    rate = median(rates[loss, shape])
    slow = rates.get(("softmax", shape))
    return number(rate, 0) + (f" ({rate / median(slow):.1f} ×)" if slow and loss != "softmax" else "")
