"""examples/modern: a modern recipe, what its parts bring, and models that keep learning."""

from pathlib import Path

from made import Made, as_json, as_log, curves, number, read_log, read_test, table

TRAININGS = {
    "modern": "`--preset modern`, NEGLM",
    "seed-2": "the same, seed 2",
    "seed-3": "the same, seed 3",
    "softmax": "softmax",
    "standard": "`--dropout-kind standard --embedding-dropout 0 --bptt 20`",
    "untied": "`--no-tie`",
    "step": "`--schedule step`",
}
EVALUATIONS = {"modern": "the trained model", "cached": "`--cache 2000`", "adapted": "`--adapt`, `--cache 2000`"}


def make(directories: list[Path]) -> Made:
    directory = directories[0]
    results: dict[str, bytes] = {}
    logs, rows = {}, []
    tests = {name: directory / f"{name}.json" for name in (*TRAININGS, *EVALUATIONS)}
    found = {name: read_test(path) for name, path in tests.items() if path.exists()}
    results |= {f"{name}.json": as_json(result) for name, result in found.items()}

    def on_test(name: str) -> str:
        return f"**{number(found[name]['perplexity'])}**" if name in found else "not run yet"

    for name, title in TRAININGS.items():
        if not (directory / f"{name}.log").exists():
            rows.append([title, *["not run yet"] * 4])
            continue
        log = logs[title.replace("`", "")] = read_log(directory / f"{name}.log")
        results[f"{name}.log"] = as_log(log)
        epochs = [record for record in log.records if record["event"] == "epoch"]
        best = min(epoch["valid_perplexity"] for epoch in epochs)
        rows.append([title, str(len(epochs)), number(epochs[-1]["loss"]), number(best), on_test(name)])
    tables = {
        "trainings": table(["", "epochs", "training loss, last epoch", "validation", "test"], rows),
        "evaluations": table(["", "test"], [[title, on_test(name)] for name, title in EVALUATIONS.items()]),
    }
    return Made(tables, {"curves.svg": curves(logs)} if logs else {}, results)
