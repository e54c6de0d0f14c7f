"""examples/modern: a modern recipe, what its parts bring, and models that keep learning."""

from pathlib import Path

from made import Made, as_json, as_log, curves, number, read_log, read_test, table

TRAININGS = {
    "modern": "`--preset modern`, NEGLM",
    "seed-2": "the same, seed 2",
    "seed-3": "the same, seed 3",
    "softmax": "the same, softmax",
    "large": "`--preset large`, NEGLM",
    "epochs-36": "`--epochs 36`",
    "standard": "`--dropout-kind standard --embedding-dropout 0 --bptt 20`",
    "untied": "`--no-tie`",
    "step": "`--schedule step`",
}
SHORT = {"sgd-10": "SGD, the preset's", "adam-10": "`--optimizer adam --lr 0.002`"}
AT_TEST_TIME = {"": "the trained model", "-cached": "`--cache 2000`", "-adapted": "`--adapt`, `--cache 2000`"}
ADAPTED = ("modern", "large")  # models that are also evaluated so


def make(directories: list[Path]) -> Made:
    """Make the tables of what has been run; the recipe's other trainings are left out."""
    directory = directories[0]
    evaluations = [model + kind for model in ADAPTED for kind in AT_TEST_TIME]
    tests = {name: directory / f"{name}.json" for name in (*TRAININGS, *evaluations)}
    found = {name: read_test(path) for name, path in tests.items() if path.exists()}
    names = [name for name in (*TRAININGS, *SHORT) if (directory / f"{name}.log").exists()]
    logs = {name: read_log(directory / f"{name}.log") for name in names}
    results = {f"{name}.json": as_json(result) for name, result in found.items()}
    results |= {f"{name}.log": as_log(log) for name, log in logs.items()}

    def on_test(name: str) -> str:
        return f"**{number(found[name]['perplexity'])}**"

    def trained(name: str, title: str) -> list[str]:
        epochs = [record for record in logs[name].records if record["event"] == "epoch"]
        best = min(epoch["valid_perplexity"] for epoch in epochs)
        return [title, str(len(epochs)), number(epochs[-1]["loss"]), number(best)]

    models = [model for model in ADAPTED if all(model + kind in found for kind in AT_TEST_TIME)]
    columns = ["", "epochs", "training loss, last epoch", "validation"]
    rows = [[*trained(name, title), on_test(name)] for name, title in TRAININGS.items() if name in logs]
    short = [trained(name, title) for name, title in SHORT.items() if name in logs]
    tables = {
        "trainings": table([*columns, "test"], rows),
        "short": table(columns, short),
        "evaluations": table(
            ["", *(f"`--preset {model}`" for model in models)],
            [[title, *(on_test(model + kind) for model in models)] for kind, title in AT_TEST_TIME.items()],
        ),
    }
    return Made(tables, {"curves.svg": curves(logs)} if logs else {}, results)
