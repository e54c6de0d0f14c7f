"""Files of format version 1 are read, scored and resumed; `tests.store.version1.make` wrote them."""

import json
import shutil
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llvmlite import binding

from neglm_cli.lm.model import LanguageModel
from neglm_cli.store import container, schema, version1
from neglm_cli.text.vocabulary import Vocabulary
from neglm_cli.vectors.vectors import Vectors
from tests.conftest import Neglm
from tests.store.mutants import Metadata, Tensors, sign
from tests.store.samples import parse
from tests.store.test_validation import Change, put, refusal
from tests.store.version1.make import CHECKPOINTS, MODELS

FILES = Path(__file__).parent / "version1"
EXPECTED = json.loads((FILES / "expected.json").read_text())
STORED = sorted(path for path in FILES.iterdir() if path.suffix in (".safetensors", ".partial", ".resumed"))
HAS_AVX512 = bool(binding.get_host_cpu_features().get("avx512f"))  # as the machine that wrote the files


@pytest.fixture
def files(workplace: Path) -> None:
    for path in (*STORED, FILES / "text.txt"):
        shutil.copy(path, workplace / path.name)


def test_there_is_a_file_of_each_kind() -> None:
    kinds = {parse(path.read_bytes())[0]["kind"] for path in STORED}
    assert {version1.KINDS.get(kind, kind) for kind in kinds} == set(schema.KINDS) - {"quantized vectors"}  # newer
    assert all(parse(path.read_bytes())[0]["format_version"] == "1" for path in STORED)


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.name)
def test_every_value_is_read(path: Path) -> None:
    """The values of tensors and metadata are those of a reader that knows only safetensors."""
    metadata, tensors = parse(path.read_bytes())
    read = container.read(path)
    assert sorted(_values(read.tensors)) == sorted(_values(_without_unused(metadata, tensors)))
    for name, text in metadata.items():
        if name not in ("arguments", "corpus", "kind", "moments", "progress", "validation"):
            assert str(read.fields[version1.FIELDS.get(name, name)]) == text
    for name, value in json.loads(metadata.get("progress", "{}")).items():
        renamed = name if read.kind == "vectors" else version1.PROGRESS.get(name, name)
        assert read.fields["progress"][renamed] == value


def _values(tensors: Tensors) -> list[bytes]:
    """The bytes of all rows of all tensors, whatever they are called."""
    return [row.tobytes() for tensor in tensors.values() for row in np.atleast_2d(tensor)]


def _without_unused(metadata: Metadata, tensors: Tensors) -> Tensors:
    return {name: t for name, t in tensors.items() if name != "moved" or metadata["moments"] == "2"}


def test_tensors_get_their_new_names() -> None:
    old, new = parse((FILES / "adam.partial").read_bytes())[1], container.read(FILES / "adam.partial").tensors
    pairs = {
        "embedding": "embedding", "lstm.0.input": "lstm.0.w_ih", "lstm.0.recurrent": "lstm.0.w_hh",
        "lstm.0.bias": "lstm.0.bias", "moment.0.output": "exp_avg_sq.output", "moment.1.output": "exp_avg.output",
        "moment.0.lstm.0.input": "exp_avg_sq.lstm.0.w_ih", "moment.1.lstm.0.recurrent": "exp_avg.lstm.0.w_hh",
        "hidden": "hidden_state", "cell": "cell_state",
    }  # fmt: skip
    for before, after in pairs.items():
        np.testing.assert_array_equal(new[after], old[before])
    assert old["moved"][0].any()
    np.testing.assert_array_equal(new["last_update_step.embedding"], old["moved"][0])
    np.testing.assert_array_equal(new["last_update_step.output"], old["moved"][1])
    old, new = parse((FILES / "adagrad.partial").read_bytes())[1], container.read(FILES / "adagrad.partial").tensors
    np.testing.assert_array_equal(new["sum.lstm.1.w_hh"], old["moment.0.lstm.1.recurrent"])


@pytest.mark.usefixtures("files")
def test_vocabularies_and_vectors_are_loaded() -> None:
    vocabulary, vectors = Vocabulary.load("vocabulary.safetensors"), Vectors.load("vectors.safetensors")
    assert (len(vocabulary), vocabulary.distinct_words, vocabulary.oov_words) == (10, 13, 5)  # with `<unk>` and `<eos>`
    assert vocabulary.unk_tokens == 0 < vocabulary.oov_tokens
    assert vectors.context_vectors.shape == vectors.vectors.shape


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("name", MODELS)
def test_models_score_as_before(neglm: Neglm, name: str) -> None:
    found = neglm("score", f"{name}.safetensors", "text.txt", "--base", "e").stdout.split()
    np.testing.assert_allclose([float(x) for x in found], [float(x) for x in EXPECTED["scores"][name]], rtol=1e-5)


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_checkpoints_are_resumed_as_before(neglm: Neglm, name: str) -> None:
    state = LanguageModel.load(f"{name}.partial")
    epochs = EXPECTED["epochs"][name]
    assert state.progress.epoch < epochs
    neglm("train-lm", "--resume", "--epochs", str(epochs), "--no-cache", "-o", name)
    found, expected = LanguageModel.load(name), LanguageModel.load(f"{name}.resumed")
    assert container.read(name).fields["format_version"] == 2
    _assert_same(found.tensors, expected.tensors)
    assert found.settings == expected.settings
    for field in fields(found.progress):
        assert getattr(found.progress, field.name) == pytest.approx(getattr(expected.progress, field.name), rel=1e-5)


@pytest.mark.usefixtures("files")
def test_vectors_are_resumed_as_before(neglm: Neglm) -> None:
    assert Vectors.load("embed.partial").progress["done"] < Vectors.load("embed.partial").progress["total"]
    neglm("embed", "--resume", "--no-cache", "-o", "embed")
    found, expected = container.read("embed"), container.read("embed.resumed")
    _assert_same(found.tensors, expected.tensors)
    assert found.fields["progress"] == expected.fields["progress"]


def _assert_same(found: Any, expected: Any) -> None:
    """Compare bytes on a machine of the same type as the one that wrote the files, else values up to rounding."""
    assert set(found) == set(expected)
    for name, tensor in expected.items():
        if HAS_AVX512:
            np.testing.assert_array_equal(found[name], tensor, name)
        else:
            np.testing.assert_allclose(found[name], tensor, rtol=1e-3, atol=1e-4, err_msg=name)


# --- invalid files ------------------------------------------------------------------------------------


def refused(name: str, change: Change) -> str:
    return refusal((FILES / name).read_bytes(), change)


def copy_tensor(name: str, other: str) -> Change:
    return lambda metadata, tensors: tensors.__setitem__(other, tensors[name].copy())


def test_unchanged_files_are_accepted(workplace: Path) -> None:
    for path in STORED:
        Path("file").write_bytes(sign(*parse(path.read_bytes())))
        container.read("file")


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("adam.partial", put("moments", "1"), "which its kind and metadata do not allow"),
        ("adam.partial", put("moments", "7"), '`optimizer` is "7", not one of'),
        ("adam.partial", put("progress", '{"losses":["x"]}'), '`progress.epoch_losses[0]` is "x", not a number'),
        ("adam.partial", put("progress", '{"losses":[],"epoch_losses":[]}'), "`epoch_losses`, which version 1"),
        ("adam.partial", put("progress", '{"loss":1,"loss":2}'), "`progress` is not JSON"),
        ("adam.partial", copy_tensor("lstm.0.input", "lstm.0.w_ih"), "`lstm.0.w_ih`, which version 1"),
        ("adam.partial", copy_tensor("moved", "other"), "it has a tensor `other`"),
        ("adam.partial", lambda m, t: t.__setitem__("moved", t["moved"][:1]), "`moved` has the wrong shape"),
        ("adam.partial", lambda m, t: t.__setitem__("moved", t["moved"][:, :1].copy()), "`last_update_step.embedding`"),
        ("adam.partial", lambda m, t: t.pop("moved"), "tensor `last_update_step.embedding` is missing"),
        ("adam.partial", lambda m, t: t["moved"].__setitem__((1, 0), 10**6), "`last_update_step.output` has steps"),
        ("adagrad.partial", lambda m, t: t["moment.0.output"].fill(-1), "`sum.output` has negative values"),
        ("neglm.safetensors", lambda m, t: t["lstm.1.input"].fill(np.nan), "`lstm.1.w_ih` contains NaN"),
        ("vocabulary.safetensors", put("distinct", "99"), "do not add up"),
    ],
)  # fmt: skip
def test_invalid_files_are_refused(workplace: Path, name: str, change: Change, message: str) -> None:
    assert message in refused(name, change)
