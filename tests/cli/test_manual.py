import os
import re
import shutil
import subprocess
import tomllib
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.text import Text

from neglm_cli.cli.app import SUBCOMMANDS
from neglm_cli.cli.commands import escaped
from neglm_cli.cli.main import run
from neglm_cli.cli.manual import pages, parameters
from tests.conftest import Neglm

ROOT = Path(__file__).parent.parent.parent
MAN = ROOT / "man"


def test_pages_are_those_that_would_be_made_now() -> None:
    assert sorted(path.name for path in MAN.iterdir()) == sorted(pages())
    for name, text in pages().items():
        assert (MAN / name).read_text(encoding="utf-8") == text, f"{name} has drifted: run `make man`"


def test_pages_are_installed() -> None:
    with open(ROOT / "pyproject.toml", "rb") as file:
        shared = tomllib.load(file)["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    found = {path: target for path, target in shared.items() if path.startswith("man/")}
    assert found == {f"man/{name}": f"share/man/man{name[-1]}/{name}" for name in pages()}


def test_every_option_of_the_help_is_in_the_page(neglm: Neglm) -> None:
    for page in SUBCOMMANDS:
        shown = neglm(page.name, "--help", COLUMNS="200").stdout.decode()
        _, options = parameters(page)
        named = {name for option in options for name in option.names} | {"--help", "-h"}
        listed = {
            name
            for line in shown.splitlines()
            if line.startswith("│")
            for names in re.findall(r"\s(--?[\w,-]+)\s", line[:40])
            for name in names.split(",")
        }
        assert listed == named


@pytest.mark.skipif(not shutil.which("man"), reason="there is no man(1) here")
def test_man_shows_them_without_a_warning() -> None:
    for name in pages():
        command = ["man", "--warnings", "-E", "UTF-8", "-l", str(MAN / name)]
        result = subprocess.run(command, capture_output=True, env=os.environ | {"MANWIDTH": "80"}, check=True)
        assert result.stderr == b""
        assert b"NAME" in result.stdout


@pytest.mark.parametrize("name", ["", *(page.name for page in SUBCOMMANDS)])
def test_help_says_what_the_pages_say(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Verbatim, including square brackets, on a terminal wide enough for each text."""
    monkeypatch.setenv("COLUMNS", "5000")
    monkeypatch.setattr("neglm_cli.cli.main.watch", lambda: None)
    assert run([name, "--help"] if name else ["--help"]) == 0
    shown = capsys.readouterr().out
    for page in SUBCOMMANDS:
        texts = [page.paragraphs[0]]
        if page.name == name:
            texts += page.paragraphs
            texts += [text for example in page.examples for text in example]
            for each in chain(*parameters(page)):
                texts += [each.help, each.metavar.removesuffix("...")]
        for text in texts if name in ("", page.name) else ():
            assert text in shown, text


@given(st.text("[]ab/#@= "))
@example("neglm[cuda] and [/bold]")
def test_no_text_is_markup(text: str) -> None:
    assert Text.from_markup(escaped(text)).plain == text
