"""Recordings of a terminal show what commands print, as a terminal shows it."""

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

from tests.examples.test_report import EXAMPLES, texts

RECORD = EXAMPLES / "report" / "terminal.py"


def record(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(RECORD), "out.svg", *arguments]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True)


def test_a_screen(tmp_path: Path) -> None:
    assert record(tmp_path, "printf 'a <b>\\n  two\\n'", "printf '10%%\\r20%% \\342\\226\\210\\n'").returncode == 0
    found = texts(tmp_path / "out.svg")
    assert {"$", "a <b>", "two", "20%"} <= set(found)
    assert "10%" not in found  # overwritten
    rectangles = list(ET.parse(tmp_path / "out.svg").getroot().iter("{http://www.w3.org/2000/svg}rect"))
    assert len(rectangles) == 2  # the window, and a block


def test_the_moment_at_which_a_line_appears(tmp_path: Path) -> None:
    command = "echo one; sleep 0.3; echo two"
    assert record(tmp_path, "--until", "^one$", command).returncode == 0
    assert "one" in texts(tmp_path / "out.svg")
    assert "two" not in texts(tmp_path / "out.svg")


def test_failures(tmp_path: Path) -> None:
    assert "false failed with exit code 1" in record(tmp_path, "false").stderr
    assert "no line of the screen matched ^two$" in record(tmp_path, "--until", "^two$", "echo one").stderr
    assert not (tmp_path / "out.svg").exists()


def test_recordings_name_no_directory_of_a_machine() -> None:
    assert not [text for text in texts(EXAMPLES / "demo" / "train.svg") if "/" in text and "4/4" not in text]
