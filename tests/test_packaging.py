"""The package: what a wheel installs, and shell completion."""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

import neglm_cli
from neglm_cli.cli.app import SUBCOMMANDS
from tests.conftest import Neglm, users_environment

ROOT = Path(__file__).parent.parent
COMPLETIONS = "neglm_cli/cli/completions"
BASH, ZSH, FISH = (f"{COMPLETIONS}/{name}" for name in ("neglm.bash", "_neglm", "neglm.fish"))


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    with open(ROOT / "pyproject.toml", "rb") as file:
        return tomllib.load(file)


def test_a_wheel_has_man_pages_completions_and_everything_that_is_read(tmp_path: Path, project: dict[str, Any]) -> None:
    pytest.importorskip("hatchling")
    program = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", program, tmp_path], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("neglm-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    data = f"neglm-{neglm_cli.__version__}.data/data"
    shared = project["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    assert {f"{data}/{target}" for target in shared.values()} == {name for name in names if name.startswith(data)}
    sources = {str(path.relative_to(ROOT)) for path in (ROOT / "neglm_cli").rglob("*.py")}
    assert sources | {"neglm_cli/py.typed"} <= names


def test_completions_are_installed(project: dict[str, Any]) -> None:
    shared = project["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    assert {path for path in shared if path.startswith(COMPLETIONS)} == {BASH, ZSH, FISH}
    assert {f"{COMPLETIONS}/{path.name}" for path in (ROOT / COMPLETIONS).iterdir()} == {BASH, ZSH, FISH}


def test_classifiers_name_the_versions_from_the_least_one_on(project: dict[str, Any]) -> None:
    prefix = "Programming Language :: Python :: 3."
    listed = [text.removeprefix(prefix) for text in project["project"]["classifiers"] if text.startswith(prefix)]
    least = int(project["project"]["requires-python"].removeprefix(">=3."))
    assert [int(minor) for minor in listed] == list(range(least, least + len(listed)))


def test_version(neglm: Neglm) -> None:
    assert neglm("--version").stdout.decode() == f"neglm {neglm_cli.__version__}\n"


@pytest.fixture
def path(tmp_path: Path) -> dict[str, str]:
    """Return an environment with this `neglm` on the PATH."""
    command = tmp_path / "bin" / "neglm"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m neglm_cli "$@"\n')
    command.chmod(0o755)
    return users_environment() | {"PATH": f"{command.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


def completed(path: dict[str, str], *words: str) -> list[str]:
    """Complete the last of these words in bash."""
    typed = " ".join(f"'{word}'" for word in words)
    program = (
        f"source {ROOT / BASH}; COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _neglm neglm; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, env=path, check=True)
    return done.stdout.split()


@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash here")
def test_bash_completes_subcommands_and_options(path: dict[str, str]) -> None:
    assert set(completed(path, "neglm", "")) == {page.name for page in SUBCOMMANDS}
    assert completed(path, "neglm", "exp") == ["export"]
    assert set(completed(path, "neglm", "export", "--o")) == {"--output", "--onnx"}


@pytest.mark.skipif(not shutil.which("fish"), reason="there is no fish here")
def test_fish_completes_subcommands(path: dict[str, str]) -> None:
    program = f"source {ROOT / FISH}; complete --do-complete 'neglm exp'"
    done = subprocess.run(["fish", "--no-config", "-c", program], capture_output=True, text=True, env=path, check=True)
    assert done.stdout.split("\t")[0] == "export"


def test_zsh_asks_for_what_it_evaluates(path: dict[str, str]) -> None:
    given = {"_NEGLM_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "neglm exp"}
    assert all(name in (ROOT / ZSH).read_text(encoding="utf-8") for name in given)
    done = subprocess.run(["neglm"], capture_output=True, text=True, env=path | given, check=True)
    assert '"export"' in done.stdout
