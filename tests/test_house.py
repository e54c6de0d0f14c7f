"""Packages import in one direction only."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "neglm_cli"
PACKAGES = [
    "kernels",
    "settings",
    "store",
    "scale",
    "text",
    "vectors",
    "objective",
    "sgns",
    "lm",
    "interop",
    "runs",
    "pictures",
    "api",
    "cli",
]  # each may import from the ones before it
FOUNDATIONS = {"errors", "simd", "barrier", "__version__"}


def imported(source: str) -> set[str]:
    """Return the qualified names of everything that a module imports, in any form."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def packages_of(source: str) -> set[str]:
    """Return the packages and top-level modules of neglm_cli that a module imports from."""
    names = [name.split(".") for name in imported(source)]
    return {parts[1] if len(parts) > 1 else "" for parts in names if parts[0] == PACKAGE.name}


@pytest.mark.parametrize(
    "line",
    [
        "import neglm_cli.cli.console",
        "import os, neglm_cli.cli.console as console",
        "from neglm_cli.cli.console import console",
        "from neglm_cli.cli import console",
        "from neglm_cli import cli",
        "def f():\n    if True:\n        import neglm_cli.cli",
    ],
)
def test_every_form_of_import_is_detected(line: str) -> None:
    assert packages_of(line) == {"cli"}


def test_imports_go_in_one_direction() -> None:
    packages = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert packages == set(PACKAGES)
    for position, package in enumerate(PACKAGES):
        for path in (PACKAGE / package).rglob("*.py"):
            assert packages_of(path.read_text(encoding="utf-8")) <= {*PACKAGES[: position + 1], *FOUNDATIONS}, path


def test_one_module_imports_numba_cuda() -> None:
    assert importers("numba", "cuda") == {Path("lm/cuda/gpu.py")}


def test_one_module_imports_mpi4py() -> None:
    assert importers("mpi4py") == {Path("scale/mpi.py")}


def importers(*package: str) -> set[Path]:
    return {
        path.relative_to(PACKAGE)
        for path in PACKAGE.rglob("*.py")
        if any(tuple(name.split(".")[: len(package)]) == package for name in imported(path.read_text(encoding="utf-8")))
    }
