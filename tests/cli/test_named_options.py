"""Options named in messages exist, and an option of several commands is the same in all of them."""

import ast
import re
from pathlib import Path
from typing import Any

import typer

from neglm_cli.cli.app import SUBCOMMANDS, app
from tests.conftest import Neglm, one_sentence

PACKAGE = Path(__file__).parent.parent.parent / "neglm_cli"
OPTION = r"(?<![\w-])--[a-z][\w-]*(?<!-)(?![\w-])"
OTHERS = {
    "--mpi": "of srun",
    **dict.fromkeys(("--host", "--bind-to", "--allow-run-as-root"), "of Open MPI's mpiexec"),
    "--mode": "of spaCy",
    "--query-gpu": "of nvidia-smi",
    "--help": "Click adds it",
    "--write": "of a program in neglm-format(5)",
}


def options() -> set[str]:
    """Return all options of all commands."""
    group: Any = typer.main.get_command(app)
    commands = [group, *group.commands.values()]
    return {
        name for command in commands for option in command.params for name in (*option.opts, *option.secondary_opts)
    }


def named_in(path: Path) -> set[str]:
    """Return the options in a module's string literals: messages, help texts and docstrings."""
    texts = [
        node.value for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Constant)
    ]
    return {name for text in texts if isinstance(text, str) for name in re.findall(OPTION, text)}


def test_options_that_are_named_exist() -> None:
    known = options() | set(OTHERS)
    texts = [path for path in PACKAGE.rglob("*.py") if path.name != "renamed.py"]  # it has old names
    unknown = {str(path.relative_to(PACKAGE)): named_in(path) - known for path in texts}
    assert {path: names for path, names in unknown.items() if names} == {}


def test_the_exceptions_are_needed() -> None:
    named = {name for path in PACKAGE.rglob("*.py") for name in named_in(path)}
    assert set(OTHERS) <= named - options()


def test_noise_alpha_has_one_range(neglm: Neglm) -> None:
    for command in (("embed", "none"), ("train-lm", "none"), ("pmi", "none"), ("plot", "--pmi", "none")):
        for alpha in ("nan", "-0.1", "10.1", "inf"):
            said = one_sentence(neglm(*command, "--noise-alpha", alpha, code=2).stderr)
            assert "--noise-alpha" in said
        said = one_sentence(neglm(*command, "--noise-alpha", "10", code=1).stderr)
        assert "none does not exist" in said


def test_help_names_options_of_its_own_command() -> None:
    group: Any = typer.main.get_command(app)
    wrong = {}
    for name, command in group.commands.items():
        own = {each for option in command.params for each in (*option.opts, *option.secondary_opts)} | set(OTHERS)
        for option in command.params:
            help_ = re.sub(r"(neglm|trained with) [\w-]*\s?--[\w-]+", "", option.help or "")  # of another command
            named = set(re.findall(OPTION, help_))
            if named - own:
                wrong[f"{name} {option.opts[0]}"] = named - own
    assert wrong == {}


def test_help_shows_each_default_once_and_plainly(neglm: Neglm) -> None:
    for page in SUBCOMMANDS:
        shown = " ".join(neglm(page.name, "--help").stdout.decode().replace("│", "").split())
        assert "[default: (" not in shown
        assert not re.search(r"Default: [^\[]*\[default: ", shown)
