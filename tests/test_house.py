"""The plan of the house holds: who may import whom."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "neglm_cli"
ROOMS = [
    "store",
    "scale",
    "text",
    "vectors",
    "objective",
    "sgns",
    "lm",
    "pictures",
    "cli",
]  # each may import from those before it
FOUNDATIONS = {"errors", "kernels", "simd", "barrier", ""}


def imports(path: Path) -> set[str]:
    """The rooms that a module imports from."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "neglm_cli":
            parts = node.module.split(".")
            found.add(parts[1] if len(parts) > 1 else "")
    return found


def test_imports_go_one_way() -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert rooms == set(ROOMS)
    for position, room in enumerate(ROOMS):
        for path in (PACKAGE / room).rglob("*.py"):
            assert imports(path) <= {*ROOMS[: position + 1], *FOUNDATIONS}, path


def test_one_module_knows_the_gpu() -> None:
    assert importers("numba", "cuda") == {Path("lm/cuda/gpu.py")}


def test_one_module_knows_mpi() -> None:
    assert importers("mpi4py") == {Path("scale/mpi.py")}


def importers(*package: str) -> set[Path]:
    return {path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py") if _imports(path, list(package))}


def _imports(path: Path, package: list[str]) -> bool:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names = {alias.name for alias in node.names}
        else:
            continue
        if any(name.split(".")[: len(package)] == package for name in names):
            return True
    return False
