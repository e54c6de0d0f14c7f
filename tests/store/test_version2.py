"""Files of format version 2 are read and scored by every later version; `tests.store.version2.make` wrote them."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from neglm_cli.store import container, schema
from tests.conftest import Neglm
from tests.store.samples import parse
from tests.store.version1.make import MODELS

FILES = Path(__file__).parent / "version2"
EXPECTED = json.loads((FILES / "expected.json").read_text())
STORED = sorted(path for path in FILES.iterdir() if path.suffix in (".safetensors", ".partial"))


def test_there_is_a_file_of_each_kind() -> None:
    metadata = [parse(path.read_bytes())[0] for path in STORED]
    assert {each["kind"] for each in metadata} == set(schema.KINDS)
    assert {each["format_version"] for each in metadata} == {"2"}


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.name)
def test_every_value_is_read(path: Path) -> None:
    """The values of tensors and metadata are those of a reader that knows only safetensors."""
    metadata, tensors = parse(path.read_bytes())
    read = container.read(path)
    assert {name: tensor.tobytes() for name, tensor in tensors.items()}.items() <= {
        name: tensor.tobytes() for name, tensor in read.tensors.items()
    }.items()
    for name in ("checksum", "kind", "tool_version"):
        assert read.fields[name] == metadata[name]
    for name in ("arguments", "progress"):
        assert json.loads(metadata.get(name, "{}")).items() <= read.fields.get(name, {}).items()


@pytest.mark.parametrize("name", MODELS)
def test_models_score_as_before(neglm: Neglm, name: str) -> None:
    for file in (f"{name}.safetensors", "text.txt"):
        shutil.copy(FILES / file, file)
    found = neglm("score", f"{name}.safetensors", "text.txt", "--base", "e").stdout.split()
    np.testing.assert_allclose([float(x) for x in found], [float(x) for x in EXPECTED["scores"][name]], rtol=1e-5)


def test_a_checkpoint_is_resumed(neglm: Neglm) -> None:
    for file in ("adam.partial", "text.txt"):
        shutil.copy(FILES / file, file)
    epochs = container.read("adam.partial").fields["progress"]["epoch"] + 1
    neglm("train-lm", "--resume", "--epochs", str(epochs), "--no-cache", "-o", "adam", "--quiet")
    assert container.read("adam").kind == "language model"
