"""`neglm cache`: list or remove encoded copies of texts."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neglm_cli.cli.app import subcommand
from neglm_cli.cli.console import console
from neglm_cli.cli.options import OUTPUT, Debug, Json, Quiet
from neglm_cli.errors import NeglmError, shown

if TYPE_CHECKING:
    from neglm_cli.text.cache import Copy


@subcommand(
    "cache",
    ("neglm cache", "Directory, size limit, and copies with their sizes."),
    ("neglm cache --clear", "Remove all copies that are not in use."),
)
def cache(
    clear: Annotated[
        bool, typer.Option("--clear", help="Remove all copies that are not in use.", rich_help_panel=OUTPUT)
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """List or remove encoded copies of texts.

    `neglm embed` and `neglm train-lm` keep a copy of a text as word ids, 4 bytes per word, in the directory NEGLM_CACHE
    (by default `neglm` in XDG_CACHE_HOME or ~/.cache), so that the next training need not encode the text again. When a
    new copy would exceed the limit NEGLM_CACHE_LIMIT (a size such as 500M; by default 20G), the least recently used
    copies are removed. Removing a copy loses nothing: it is written again when needed.
    """
    from neglm_cli.text import cache as cached
    from neglm_cli.text.encoded import default_cache

    directory, limit = default_cache(), cached.size_limit()
    removed = cached.clear(directory) if clear else []
    left = cached.copies(directory)
    summary = {"directory": str(directory), "limit_bytes": limit, "bytes": sum(copy.size for copy in left)}
    if clear:
        summary |= {"removed": len(removed), "removed_bytes": sum(copy.size for copy in removed), "in_use": len(left)}
    summary["copies"] = [_described(copy) for copy in reversed(left)]
    if json:
        console.json(summary)
    elif not quiet:
        console.result(_as_text(summary))


def _described(copy: "Copy") -> dict[str, Any]:
    return {
        "file": copy.path.name,
        "bytes": copy.size,
        "last_used": datetime.fromtimestamp(copy.used).astimezone().isoformat(timespec="seconds"),
        "corpus": _corpus(copy.path),
    }


def _corpus(copy: Path) -> list[str] | None:
    """Return the files of the text; None if the copy is damaged."""
    from neglm_cli.store.container import read_fields
    from neglm_cli.text.provenance import path_from

    try:
        return [path_from(str(copy), file["path"]) or "" for file in read_fields(copy)["corpus"]]
    except (NeglmError, TypeError, KeyError):
        return None


def _as_text(summary: dict[str, Any]) -> str:
    copies = summary["copies"]
    lines = []
    if "removed" in summary:
        stay = f"; {_count(len(copies))} in use kept" if copies else ""
        lines.append(f"removed {_count(summary['removed'])}, {summary['removed_bytes']:,} bytes{stay}")
    lines.append(
        f"{shown(summary['directory'])}: {_count(len(copies))}, {summary['bytes']:,} bytes of at most "
        f"{summary['limit_bytes']:,}"
    )
    width = max((len(f"{copy['bytes']:,}") for copy in copies), default=0)
    for copy in copies:
        used = copy["last_used"][:16].replace("T", " ")
        lines.append(f"  {copy['bytes']:>{width},}  {used}  {_text(copy)}")
    return "\n".join(lines)


def _text(copy: dict[str, Any]) -> str:
    if copy["corpus"] is None:
        return f"{shown(copy['file'])}, damaged"
    first, *others = copy["corpus"]
    return shown(first) + (f" and {len(others)} more" if others else "")


def _count(copies: int) -> str:
    return f"{copies} encoded {'copy' if copies == 1 else 'copies'}"
