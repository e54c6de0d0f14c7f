"""examples/ptb: the paper's perplexities compared with ours. One directory per seed."""

from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import headline
from made import Made, as_json, as_log, curves, number, read_benchmarks, read_log, read_test, table

from neglm_cli.pictures.log import TrainingLog

# The directory of the training, its name on the page, and the paper's test perplexity.
TRAININGS = {
    "neglm": ("NEGLM", 98.35),
    "neglm-z": ("NEGLM, log Z = log k", None),
    "b": ("NEGLM-B", 100.69),
    "nce": ("NCE, biases from −log V", 104.33),
    "nce0": ("NCE, biases from 0", None),
    "neg": ("NEG, without the correction", None),
    "softmax": ("softmax, baseline", None),
}
CURVES = ("neglm", "neglm-z", "b", "nce", "softmax")  # in the figure of learning curves
HEADLINE = {
    "neglm-z": "NEGLM", "neglm": "NEGLM, log Z = 0", "b": "NEGLM-B, log Z = 0", "nce": "NCE", "softmax": "full softmax"
}  # fmt: skip
BIASES = ("nce", "nce0", "neglm")  # in the figure on initial biases
EPOCH_BY_EPOCH = (*CURVES, "nce0")  # in the table of first epochs
CORRECTED = "neglm-1"  # the same training as neg, with the correction
CLIP = 5.0  # norm at which gradients are clipped
SPEED_OF = {"softmax": "train-lm: 2×300, softmax", "others": "train-lm: 2×300, independent noise"}  # in the benchmarks
EARLY = (1, 2, 5, 7, 12, 20)  # epochs


class Run(NamedTuple):
    log: TrainingLog
    test: dict[str, Any] | None

    @property
    def epochs(self) -> list[dict[str, Any]]:
        return [record for record in self.log.records if record["event"] == "epoch"]


def make(directories: list[Path]) -> Made:
    seeds = [runs_in(directory) for directory in directories]
    tables = {
        "perplexity": _perplexities(seeds), "start": _first_epochs(seeds[0]), "neg": _neg_and_neglm(seeds[0])
    }  # fmt: skip
    results = {}
    for i, runs in enumerate(seeds):
        for name, run in runs.items():
            results[f"{i + 1}/{name}/log.json"] = as_log(run.log)
            if run.test:
                results[f"{i + 1}/{name}/test.json"] = as_json(run.test)
    pictures = {"perplexity.svg": headline.picture(_headline(seeds))} if any(seeds) else {}
    for file, names in {"curves.svg": CURVES, "biases.svg": BIASES}.items():
        logs = {
            TRAININGS[name][0].removesuffix(", baseline"): _drawn(name, seeds[0]) for name in names if name in seeds[0]
        }
        if logs:
            pictures[file] = curves(logs)
    return Made(tables, pictures, results)


def _headline(seeds: list[dict[str, Run]]) -> list[headline.Training]:
    found = []
    for name, title in HEADLINE.items():
        runs = [seed[name] for seed in seeds if name in seed]
        curves = [[epoch["valid_perplexity"] for epoch in run.epochs] for run in runs]
        tests = [run.test["perplexity"] for run in runs if run.test]
        found.append(headline.Training(title, curves, tests, TRAININGS[name][1]))
    return [each for each in found if each.validation]


def _drawn(name: str, runs: dict[str, Run]) -> TrainingLog:
    """Return a log to draw: the softmax without its log Z, which may be far from 0 and would flatten the other
    curves."""
    log = runs[name].log
    if name != "softmax":
        return log
    return TrainingLog(log.name, [{k: v for k, v in r.items() if not k.startswith("log_z")} for r in log.records])


def runs_in(directory: Path) -> dict[str, Run]:
    found = {}
    for name in (*TRAININGS, CORRECTED):
        log, test = directory / name / "log.json", directory / name / "test.json"
        if log.exists() and (run := Run(read_log(log), read_test(test) if test.exists() else None)).epochs:
            found[name] = run
    return found


def _perplexities(seeds: list[dict[str, Run]]) -> str:
    rates = {each.job: float(each.our_rate.replace(",", "")) for each in read_benchmarks()}  # on two cores
    rows = []
    for name, (title, papers) in TRAININGS.items():
        runs = [seed[name] for seed in seeds if name in seed]
        if not runs:
            rows.append([title, number(papers), *["not run yet"] * 5])
            continue
        best = [min(epoch["valid_perplexity"] for epoch in run.epochs) for run in runs]
        test = runs[0].test
        log_z = f"{number(test['log_z_mean'])} ± {number(test['log_z_std'])}" if test else "–"
        minutes = runs[0].epochs[-1]["tokens"] / rates[SPEED_OF["softmax" if name == "softmax" else "others"]] / 60
        rows.append(
            [
                title, number(papers), on_test(runs), _over_seeds(best), log_z, epochs_of(runs[0]), f"{minutes:.0f} min"
            ]
        )  # fmt: skip
    head = ["", "paper, test", "ours, test", "ours, validation", "log Z, test", "epochs", "time on two cores"]
    return table(head, rows)


def on_test(runs: list[Run]) -> str:
    """Format the test perplexity over all seeds."""
    return _over_seeds([run.test["perplexity"] for run in runs if run.test])


def epochs_of(run: Run) -> str:
    last = run.epochs[-1]["epoch"]
    return f"{last}" if run.log.finished else f"{last}, not finished"


def _over_seeds(values: list[float]) -> str:
    if len(values) < 2:
        return f"**{number(values[0])}**" if values else "–"
    return f"**{number(mean(values))}** ({len(values)} seeds: {number(min(values))} to {number(max(values))})"


def _first_epochs(runs: dict[str, Run]) -> str:
    rows = []
    for name in EPOCH_BY_EPOCH:
        if name not in runs:
            rows.append([TRAININGS[name][0], *["not run yet"] * (3 + len(EARLY))])
            continue
        run = runs[name]
        norms = [r["gradient_norm"] for r in run.log.records if r["event"] == "progress" and r["epoch"] == 1]
        clipped = mean(norm > CLIP for norm in norms)
        perplexities = {epoch["epoch"]: epoch["valid_perplexity"] for epoch in run.epochs}
        rows.append(
            [
                TRAININGS[name][0], number(run.epochs[0]["loss"]), number(mean(norms), 1), f"{clipped:.0%}",
                *(number(perplexities.get(epoch), 1) for epoch in EARLY),
            ]
        )  # fmt: skip
    head = ["", "loss, epoch 1", "gradient norm, epoch 1", f"above {CLIP:g}", *(f"validation, {e}" for e in EARLY)]
    return table(head, rows)


def _neg_and_neglm(runs: dict[str, Run]) -> str:
    if "neg" not in runs or CORRECTED not in runs:
        return "Not run yet.\n"
    head = ["epoch", "training loss, NEGLM", "training loss, NEG", "validation, NEGLM", "validation, NEG"]
    rows = [
        [
            str(neg["epoch"]), f"{neglm['loss']:.12f}", f"{neg['loss']:.12f}",
            number(neglm["valid_perplexity"]), number(neg["valid_perplexity"]),
        ]
        for neglm, neg in zip(runs[CORRECTED].epochs, runs["neg"].epochs, strict=True)
    ]  # fmt: skip
    return table(head, rows)
