"""examples/alpha: perplexity over α, over k and over seeds."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import mean, median

from drawn import Line, Panel, picture
from made import Made, as_json, as_log, number, read_log, read_test, table

ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0)
NOISE_WORDS = (10, 25, 50, 100, 200, 400)
SEEDS = (1, 2, 3)
LOSSES = {"neglm": "NEGLM", "neglm-z": "NEGLM, `--log-z` log k", "nce": "NCE"}
STARTS = ("", "; `--log-z` log k")  # of columns: initialized as in the paper, and as the unigram model


def make(directories: list[Path]) -> Made:
    directory = directories[0]
    # For each α and k: the training initialized as in the paper, and the one initialized as the unigram model.
    over_alpha = {a: (f"alpha-{a:g}", "z-k-100" if a == 1 else f"z-alpha-{a:g}") for a in ALPHAS}
    over_k = {k: ("alpha-1" if k == 100 else f"k-{k}", f"z-k-{k}") for k in NOISE_WORDS}
    over_seeds = {loss: [f"seed-{seed}-{loss}" for seed in SEEDS] for loss in LOSSES}
    valid, test, log_z, results = {}, {}, {}, {}
    for name in {name for names in (*over_alpha.values(), *over_k.values(), *over_seeds.values()) for name in names}:
        if not (directory / f"{name}.json").exists():
            continue
        found, log = read_test(directory / f"{name}.json"), read_log(directory / f"{name}.log")
        valid[name] = min(record["valid_perplexity"] for record in log.records if record["event"] == "epoch")
        test[name] = found["perplexity"]
        log_z[name] = f"{number(found['log_z_mean'])} ± {number(found['log_z_std'])}"
        results[f"{name}.json"], results[f"{name}.log"] = as_json(found), as_log(log)
    rates: dict[int, list[float]] = {}
    if (directory / "speed.jsonl").exists():
        results["speed.jsonl"] = (directory / "speed.jsonl").read_bytes()
        for line in results["speed.jsonl"].splitlines():
            rate = json.loads(line)
            rates.setdefault(int(rate["k"]), []).append(rate["words_per_second"])

    def figures(names: tuple[str, str]) -> list[str]:
        return [
            figure
            for name in names
            for figure in ((number(valid[name]), f"**{number(test[name])}**") if name in test else ["not run yet"] * 2)
        ]

    head = [f"{what}{start}" for start in STARTS for what in ("validation", "test")]
    tables = {
        "alpha": table(
            ["α", *head, f"log Z, test{STARTS[1]}"],
            [[f"{a:g}", *figures(names), log_z.get(names[1], "–")] for a, names in over_alpha.items()],
        ),
        "k": table(
            ["k", *head, "words/s"],
            [
                [str(k), *figures(names), number(median(rates[k]), 0) if k in rates else "not measured yet"]
                for k, names in over_k.items()
            ],
        ),
        "seeds": table(
            ["", *(f"test, seed {seed}" for seed in SEEDS), "mean"],
            [[LOSSES[loss], *_over_seeds([test.get(name) for name in names])] for loss, names in over_seeds.items()],
        ),
    }
    panels = [
        Panel("Test perplexity over α, k = 100", "α", _lines(over_alpha.items(), test)),
        Panel("Over k, α = 1", "k", _lines(over_k.items(), test), log_x=True),
    ]
    return Made(tables, {"perplexity.svg": picture(panels)}, results)


def _over_seeds(found: list[float | None]) -> list[str]:
    run = [perplexity for perplexity in found if perplexity is not None]
    return [*map(number, found), f"**{number(mean(run))}**" if len(run) == len(found) else "not run yet"]


def _lines(trainings: Iterable[tuple[float, tuple[str, str]]], test: Mapping[str, float]) -> list[Line]:
    lines = []
    for start, label in enumerate(("log Z = 0", "log Z = log k")):
        found = {x: test[names[start]] for x, names in trainings if names[start] in test}
        lines.append(Line(label, list(found), list(found.values())))
    return lines
