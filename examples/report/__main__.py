"""Tables and pictures of the recipes, from the results that their scripts leave behind.

    python examples/report RECIPE [DIRECTORY…] [--ship]

Prints the tables, and writes the pictures into DIRECTORY. With --ship the page of the recipe gets them instead: its
README.md, the pictures beside it, and what they were made from in results/. Without a DIRECTORY they are made
from results/ again.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import alpha
import large_vocabulary
import pmi
import ptb
import readme
import wikitext_2
from made import EXAMPLES, Made

RECIPES: dict[str, Callable[[list[Path]], Made]] = {
    "ptb": ptb.make,
    "alpha": alpha.make,
    "wikitext-2": wikitext_2.make,
    "large-vocabulary": large_vocabulary.make,
    "pmi": pmi.make,
    "readme": readme.make,  # of the repository, which quotes the others
}


def shipped(recipe: str) -> list[Path]:
    """Where its results are kept: several directories where there are several seeds."""
    if recipe == "readme":
        return [EXAMPLES]
    results = EXAMPLES / recipe / "results"
    return sorted(results.iterdir()) if recipe == "ptb" else [results]


def with_table(page: str, name: str, text: str) -> str:
    """The page with this table between the two comments that name its place."""
    start, end = f"<!-- {name}: made by examples/report -->\n", f"<!-- end of {name} -->\n"
    before, found_start, rest = page.partition(start)
    _, found_end, after = rest.partition(end)
    if not found_start or not found_end:
        raise SystemExit(f"README.md has no place for the table {name}: {start.strip()} … {end.strip()}")
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
