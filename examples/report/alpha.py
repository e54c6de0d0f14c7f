"""examples/alpha: perplexity over α and over k."""

import json
from pathlib import Path
from statistics import median

from drawn import Line, Panel, picture
from made import Made, as_json, as_log, number, read_json, read_log, table

ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0)
NOISE_WORDS = (10, 25, 50, 100, 200, 400)


def make(directories: list[Path]) -> Made:
    directory = directories[0]
    over_alpha = {alpha: f"alpha-{alpha:g}" for alpha in ALPHAS}
    over_k = {k: "alpha-1" if k == 100 else f"k-{k}" for k in NOISE_WORDS}
    from_unigram = {k: f"z-k-{k}" for k in NOISE_WORDS}
    valid, test, log_z, results = {}, {}, {}, {}
    for name in {*over_alpha.values(), *over_k.values(), *from_unigram.values()}:
        if not (directory / f"{name}.json").exists():
            continue
        found, log = read_json(directory / f"{name}.json"), read_log(directory / f"{name}.log")
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

    def row(first: str, name: str) -> list[str]:
        if name not in test:
            return [first, *["not run yet"] * 3]
        return [first, number(valid[name]), f"**{number(test[name])}**", log_z[name]]

    tables = {
        "alpha": table(
            ["α", "validation", "test", "log Z, test"], [row(f"{a:g}", name) for a, name in over_alpha.items()]
        ),
        "k": table(
            [
                "k",
                *(f"{what}{start}" for start in ("", "; `--log-z` log k") for what in ("validation", "test")),
                "words/s",
            ],
            [
                [
                    *row(str(k), name)[:3],
                    *row("", from_unigram[k])[1:3],
                    number(median(rates[k]), 0) if k in rates else "not measured yet",
                ]
                for k, name in over_k.items()
            ],
        ),
    }
    panels = [
        Panel("Test perplexity over α, k = 100", "α", [_line({a: test.get(n) for a, n in over_alpha.items()})]),
        Panel(
            "Over k, α = 1",
            "k",
            [
                _line({k: test.get(n) for k, n in over_k.items()}, "log Z = 0"),
                _line({k: test.get(n) for k, n in from_unigram.items()}, "log Z = log k"),
            ],
            log_x=True,
        ),
    ]
    return Made(tables, {"perplexity.svg": picture(panels)}, results)


def _line(values: dict[float, float | None] | dict[int, float | None], label: str = "") -> Line:
    there = {x: y for x, y in values.items() if y is not None}
    return Line(label, list(there), list(there.values()))
