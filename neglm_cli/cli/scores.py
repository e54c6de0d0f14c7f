"""Tables of evaluation results."""

import math
from typing import Any

from neglm_cli.errors import count_of, shown, visible

METHOD_NAMES = {"add": "3CosAdd", "mul": "3CosMul"}
NONE = "–"  # where there is no number
DIGITS = 6  # after the decimal point, in JSON


def rounded(value: float | None) -> float | None:
    """Round for JSON; None for infinity, which JSON lacks."""
    return round(value, DIGITS) if value is not None and math.isfinite(value) else None


def similarity_text(result: dict[str, Any]) -> list[str]:
    first = f"{shown(result['file'])}: {count_of(result['pairs'], 'pair')}, {_used(result)}"
    rows = [
        ("Spearman", result["spearman"], result["spearman_all"]),
        ("Pearson", result["pearson"], result["pearson_all"]),
    ]
    lines = [first, f"  {'':<12}{'used pairs':>12}{'all, OOV as 0':>22}"]
    if result["composed_words"]:
        lines.insert(1, f"  {count_of(result['composed_words'], 'OOV word')} composed from subwords")
    return lines + [f"  {name:<12}{_number(used):>12}{_number(every):>22}" for name, used, every in rows]


def analogy_text(result: dict[str, Any]) -> list[str]:
    """Return a line for each section and for totals; the right half counts OOV questions as wrong."""
    total = result["total"]
    methods = [method for method in METHOD_NAMES if method in total]
    rows = [(visible(section["name"]), section) for section in result["sections"]]
    if result["semantic"]["questions"] and result["syntactic"]["questions"]:
        rows += [("semantic", result["semantic"]), ("syntactic", result["syntactic"])]
    rows.append(("total", total))
    width = max(len(name) for name, _ in rows)
    names = "".join(f"{METHOD_NAMES[method]:>10}" for method in methods)
    wide = 10 * len(methods)
    lines = [
        f"{shown(result['file'])}: {count_of(total['questions'], 'question')}, {_used(total)}",
        f"  {'':<{width}}{'':>20}{'used':>{wide}}{'all, OOV as wrong':>{max(wide, 21) + 3}}",
        f"  {'':<{width}}{'used':>10}{'OOV':>10}{names}{names:>{max(wide, 21) + 3}}",
    ]
    if result["composed_words"]:
        lines.insert(1, f"  {count_of(result['composed_words'], 'OOV word')} composed from subwords")
    for name, counts in rows:
        used = "".join(f"{_share(counts[method]['accuracy']):>10}" for method in methods)
        every = "".join(f"{_share(counts[method]['accuracy_all']):>10}" for method in methods)
        lines.append(f"  {name:<{width}}{counts['used']:>10,}{counts['oov']:>10,}{used}{every:>{max(wide, 21) + 3}}")
    return lines


def _used(counts: dict[str, Any]) -> str:
    return f"{counts['used']:,} used, {counts['oov']:,} skipped (OOV)"


def _number(value: float | None) -> str:
    return NONE if value is None else f"{value:.4f}"


def _share(value: float | None) -> str:
    return NONE if value is None else f"{value:.2%}"
