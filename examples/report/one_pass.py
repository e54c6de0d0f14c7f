"""examples/one-pass: losses where each text is seen once, by learning rate and over seeds."""

from collections.abc import Iterable
from pathlib import Path
from statistics import mean, median
from typing import NamedTuple

from made import Made, as_json, as_log, number, read_log, read_test, table

LOSSES = {"neglm": "NEGLM", "neglm-b": "NEGLM-B", "nce": "NCE", "softmax": "softmax"}
SCHEDULES = {"constant": "constant", "cosine": "`--schedule cosine`"}  # by directory of results


class Run(NamedTuple):
    """A finished training."""

    loss: str
    rate: float
    seed: int
    valid: float  # perplexities
    test: float | None
    seconds: float


def make(directories: list[Path]) -> Made:
    """Make a table of validation perplexities by learning rate, and one of test perplexities at each loss's best rate.

    Each directory has the trainings of one schedule. Logs are named LOSS-RATE-SEED.log, and results of evaluations
    LOSS-RATE-SEED.json.
    """
    results: dict[str, bytes] = {}
    runs = {path.resolve().name: _runs(path, results) for path in directories}
    rates = sorted({run.rate for found in runs.values() for run in found})
    by_rate, tests = [], []
    for schedule, found in runs.items():
        title = SCHEDULES.get(schedule, schedule)
        for loss, name in LOSSES.items():
            same = [run for run in found if run.loss == loss]
            best = _best_rate(same)
            cells = (_cell((run.valid for run in same if run.rate == rate), rate == best) for rate in rates)
            by_rate.append([title, name, *cells])
            chosen = [run for run in same if run.rate == best]
            tested = [run.test for run in chosen if run.test is not None]
            if tested:
                seconds = number(median(run.seconds for run in chosen), 0)
                tests.append([title, name, str(best), str(len(tested)), _cell(tested, True), seconds])
    tables = {
        "rates": table(["schedule", "loss", *map(str, rates)], by_rate),
        "tests": table(["schedule", "loss", "learning rate", "seeds", "test", "seconds"], tests),
    }
    return Made(tables, {}, results)


def _runs(directory: Path, results: dict[str, bytes]) -> list[Run]:
    """Read the finished trainings of a directory; add what was read to the results."""
    runs, schedule = [], directory.resolve().name
    for path in sorted(directory.glob("*.log")):
        log = read_log(path)
        if not log.finished:
            continue
        results[f"{schedule}/{path.name}"] = as_log(log)
        (end,) = (record for record in log.records if record["event"] == "epoch")
        test = None
        if (evaluated := path.with_suffix(".json")).exists():
            found = read_test(evaluated)
            results[f"{schedule}/{evaluated.name}"] = as_json(found)
            test = found["perplexity"]
        loss, rate, seed = path.stem.rsplit("-", 2)
        runs.append(Run(loss, float(rate), int(seed), end["valid_perplexity"], test, end["seconds"]))
    return runs


def _best_rate(runs: list[Run]) -> float | None:
    """Return the learning rate that `run` chooses: that of the lowest validation perplexity of the lowest seed."""
    first = min((run.seed for run in runs), default=None)
    return min(((run.valid, run.rate) for run in runs if run.seed == first), default=(None, None))[1]


def _cell(perplexities: Iterable[float], is_best: bool) -> str:
    """Format the mean over seeds, with the lowest and highest; in bold if it is the best."""
    values = list(perplexities)
    if not values:
        return "not run yet"
    spread = f" ({number(min(values))}–{number(max(values))})" if len(values) > 1 else ""
    cell = number(mean(values)) + spread
    return f"**{cell}**" if is_best else cell
