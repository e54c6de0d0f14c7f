"""examples/pmi: the fraction of the PMI matrix kept by vectors and by a truncated SVD, over the dimension."""

from pathlib import Path

from drawn import Line, Panel, picture
from made import Made, as_json, number, percentage, read_json, table

SIZES = (10, 25, 50, 100, 200, 400)
EPOCHS = (5, 20)


def make(directories: list[Path]) -> Made:
    found, results = {}, {}
    for size in SIZES:
        for epochs in EPOCHS:
            name = f"size-{size}-epochs-{epochs}.json"
            if (directories[0] / name).exists():
                found[size, epochs] = read_json(directories[0] / name)
                results[name] = as_json(found[size, epochs])
    sizes = [size for size in SIZES if all((size, epochs) in found for epochs in EPOCHS)]
    columns = {
        **{f"vectors, {epochs} epochs": [found[size, epochs]["vectors"] for size in sizes] for epochs in EPOCHS},
        "truncated SVD": [found[size, EPOCHS[0]]["svd"] for size in sizes],
    }
    head = ["dimensions", *(f"{name}: KL" for name in columns), *(f"{name}: kept" for name in columns)]
    rows = [
        [
            str(size), *(number(column[i]["kl_divergence"], 4) for column in columns.values()),
            *(percentage(column[i]["kept"]) for column in columns.values()),
        ]
        for i, size in enumerate(sizes)
    ]  # fmt: skip
    lines = [
        Line(name, sizes, [100 * result["kept"] for result in column], gray=name == "truncated SVD")
        for name, column in columns.items()
    ]
    panel = Panel("Percentage of the PMI matrix kept", "dimensions", lines, log_x=True)
    return Made({"kept": table(head, rows)}, {"kept.svg": picture([panel])}, results)
