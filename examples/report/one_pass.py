"""examples/one-pass: losses by learning rate, where each text is seen once."""

from pathlib import Path
from statistics import mean

from made import Made, as_log, number, read_log, table

LOSSES = {"neglm": "NEGLM", "neglm-b": "NEGLM-B", "nce": "NCE", "softmax": "softmax"}


def make(directories: list[Path]) -> Made:
    """Make the table of validation perplexities. Logs are named LOSS-RATE-SEED.log."""
    found: dict[str, dict[float, list[float]]] = {}  # perplexities of all seeds, by loss and learning rate
    results = {}
    for path in sorted(directories[0].glob("*.log")):
        loss, rate, _ = path.stem.rsplit("-", 2)
        log = read_log(path)
        ends = [record for record in log.records if record["event"] == "epoch"]
        if ends:  # it has finished
            results[path.name] = as_log(log)
            found.setdefault(loss, {}).setdefault(float(rate), []).append(ends[0]["valid_perplexity"])
    rates = sorted({rate for by_rate in found.values() for rate in by_rate})
    rows = []
    for loss, title in LOSSES.items():
        by_rate = found.get(loss, {})
        best = min(by_rate, key=lambda rate: mean(by_rate[rate]), default=None)
        rows.append([title, *(_cell(by_rate.get(rate, []), rate == best) for rate in rates)])
    return Made({"rates": table(["learning rate", *map(str, rates)], rows)}, {}, results)


def _cell(perplexities: list[float], is_best: bool) -> str:
    """Format the mean of seeds, with the lowest and highest; in bold if it is the best."""
    if not perplexities:
        return "not run yet"
    spread = f" ({number(min(perplexities))}–{number(max(perplexities))})" if len(perplexities) > 1 else ""
    cell = number(mean(perplexities)) + spread
    return f"**{cell}**" if is_best else cell
