"""Writes a table of pairs available on every machine with Python: modules of the standard library and exceptions
raised.

Source files are parsed; nothing is imported or run. Usage: python raises.py > raises.tsv
"""

import ast
import sys
import sysconfig
from collections import Counter
from pathlib import Path

SKIPPED = {"site-packages", "dist-packages", "test", "tests", "idle_test", "lib2to3", "__pycache__"}


def raised(tree: ast.Module) -> list[str]:
    """Return the names of exceptions in `raise Name` and `raise Name(…)`."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise):
            called = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
            if name[:1].isupper():
                found.append(name)
    return found


def main() -> None:
    library = Path(sysconfig.get_path("stdlib"))
    counts: Counter[tuple[str, str]] = Counter()
    for path in sorted(library.rglob("*.py")):
        parts = path.relative_to(library).parts
        if SKIPPED.isdisjoint(parts):
            try:
                tree = ast.parse(path.read_text(encoding="utf-8"))
            except (OSError, SyntaxError, UnicodeDecodeError):
                continue
            counts.update((parts[0].removesuffix(".py"), name) for name in raised(tree))
    sys.stdout.writelines(f"{module}\t{name}\t{count}\n" for (module, name), count in sorted(counts.items()))


if __name__ == "__main__":
    main()
