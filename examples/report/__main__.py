"""Writes the tables and figures of the recipes, from the results of their scripts.

    python examples/report RECIPE [DIRECTORY…] [--ship]

Prints the tables, and writes the figures to DIRECTORY. With --ship, updates the recipe's README.md, its figures, and
the data they were made from, in results/. Without a DIRECTORY, uses results/.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import alpha
import large_vocabulary
import modern
import one_pass
import pmi
import ptb
import readme
import wikitext_2
from made import EXAMPLES, Made

RECIPES: dict[str, Callable[[list[Path]], Made]] = {
    "ptb": ptb.make,
    "modern": modern.make,
    "alpha": alpha.make,
    "wikitext-2": wikitext_2.make,
    "large-vocabulary": large_vocabulary.make,
    "pmi": pmi.make,
    "one-pass": one_pass.make,
    "results": readme.make_results,  # quotes the others
    "readme": readme.make,  # the repository's README.md, which quotes the others
}


def shipped(recipe: str) -> list[Path]:
    """Return the directories of a recipe's stored results: one per seed or setting, if there are several."""
    if recipe in ("readme", "results"):
        return [EXAMPLES]
    results = EXAMPLES / recipe / "results"
    return sorted(results.iterdir()) if recipe in ("ptb", "one-pass") else [results]


def with_table(page: str, name: str, text: str) -> str:
    """Return the page with this table inserted between the two comments with its name."""
    start, end = f"<!-- {name}: made by examples/report -->\n", f"<!-- end of {name} -->\n"
    before, found_start, rest = page.partition(start)
    _, found_end, after = rest.partition(end)
    if not found_start or not found_end:
        raise SystemExit(f"README.md lacks the comments of the table {name}: {start.strip()} … {end.strip()}")
    return f"{before}{start}\n{text}\n{end}{after}"


def ship(recipe: str, made: Made) -> None:
    home = EXAMPLES.parent if recipe == "readme" else EXAMPLES / recipe
    for path, data in {**made.pictures, **{f"results/{name}": data for name, data in made.results.items()}}.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_bytes(data)
    page = (home / "README.md").read_text(encoding="utf-8")
    for name, text in made.tables.items():
        page = with_table(page, name, text)
    (home / "README.md").write_text(page, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", choices=RECIPES)
    parser.add_argument("directories", nargs="*", type=Path, metavar="DIRECTORY")
    parser.add_argument("--ship", action="store_true")
    options = parser.parse_args()
    made = RECIPES[options.recipe](options.directories or shipped(options.recipe))
    for text in made.tables.values():
        print(text)
    if options.ship:
        ship(options.recipe, made)
        return
    for name, data in made.pictures.items():
        (options.directories or [Path()])[0].joinpath(name).write_bytes(data)


if __name__ == "__main__":
    main()
