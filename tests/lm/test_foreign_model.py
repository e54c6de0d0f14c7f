"""Models written by another program, from the description of the format alone, score as computed in NumPy."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash
from safetensors.numpy import save_file

import neglm_cli
from neglm_cli.api.loading import load_as
from neglm_cli.errors import NeglmError
from tests.conftest import Neglm, one_sentence, only_text

WORDS = ["the", "<eos>", "cat", "sat", "<unk>", "mat"]
COUNTS = np.array([9, 7, 4, 3, 2, 1])
D, H, LAYERS, K, ALPHA, LOG_Z = 3, 4, 2, 5, 0.75, 0.3
TEXT = "the cat sat\nthe dog sat\n\nmat the the\n"


def tensors(bias: bool) -> dict[str, np.ndarray]:
    random = np.random.default_rng(3)
    shapes: dict[str, tuple[int, ...]] = {"embedding": (len(WORDS), D), "output": (len(WORDS), H)}
    for layer in range(LAYERS):
        shapes[f"lstm.{layer}.w_ih"] = (H if layer else D, 4 * H)
        shapes[f"lstm.{layer}.w_hh"] = (H, 4 * H)
        shapes[f"lstm.{layer}.bias"] = (4 * H,)
    found = {name: random.normal(0, 1, shape).astype(np.float32) for name, shape in shapes.items()}
    found["output_bias"] = (random.normal(0, 1, len(WORDS)) * bias).astype(np.float32)
    found["words"] = np.frombuffer("".join(WORDS).encode(), np.uint8)
    found["offsets"] = np.cumsum([0, *map(len, WORDS)])
    return found | {"counts": COUNTS}


def write(path: str, given: dict[str, np.ndarray], **fields: Any) -> None:
    """Write a model with the safetensors package, then its checksum, as in neglm-format(5)."""
    metadata = {
        "checksum": "0" * 32, "format": "neglm", "format_version": "2", "kind": "language model",
        "tool_version": "none", "arguments": "{}", "corpus": "[]", "validation": "[]", "progress": "{}", "k": str(K),
        "noise_alpha": str(ALPHA), "log_z": str(LOG_Z), "layers": str(LAYERS),
    } | fields  # fmt: skip
    save_file(given, path, metadata)
    contents = Path(path).read_bytes()
    start = 8 + int.from_bytes(contents[:8], "little")
    checksum = xxhash.xxh3_128_hexdigest(contents[:start] + xxhash.xxh3_128_digest(contents[start:]))
    head = contents[:start].replace(b'"checksum":"' + b"0" * 32, b'"checksum":"' + checksum.encode(), 1)
    Path(path).write_bytes(head + contents[start:])


def log_probabilities(loss: str, given: dict[str, np.ndarray], reset: bool = False) -> np.ndarray:
    """Compute the log-probability of each word and <eos> of TEXT, read as one sequence."""
    p = {name: array.astype(np.float64) for name, array in given.items()}
    ids = [
        WORDS.index(word if word in WORDS else "<unk>")
        for line in TEXT.splitlines()
        for word in [*line.split(), "<eos>"]
    ]
    noise = COUNTS**ALPHA / (COUNTS**ALPHA).sum()
    h, c = np.zeros((2, LAYERS, H))
    found = []
    for before, target in zip([WORDS.index("<eos>"), *ids], ids, strict=False):
        if reset and before == WORDS.index("<eos>"):
            h, c = np.zeros((2, LAYERS, H))
        x = p["embedding"][before]
        for layer in range(LAYERS):
            gates = x @ p[f"lstm.{layer}.w_ih"] + h[layer] @ p[f"lstm.{layer}.w_hh"] + p[f"lstm.{layer}.bias"]
            i, f, g, o = np.split(gates, 4)
            c[layer] = c[layer] / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
            x = h[layer] = np.tanh(c[layer]) / (1 + np.exp(-o))
        scores = p["output"] @ x + p["output_bias"]
        scores += np.log(K * noise) if loss == "neglm" else 0
        found.append(scores[target] - np.log(np.exp(scores).sum()))
    return np.array(found)


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("loss", ["softmax", "neglm"])
def test_a_model_without_arguments_is_scored_correctly(neglm: Neglm, loss: str, reset: bool) -> None:
    given = tensors(bias=loss == "softmax")
    fields = ({"log_z": "0"} if loss == "softmax" else {}) | ({"reset_at_eos": "true"} if reset else {})
    write("model.safetensors", given, loss=loss, **fields)
    Path("test.txt").write_text(TEXT)
    expected = math.exp(-log_probabilities(loss, given, reset).mean())
    found = only_text(neglm("eval", "--test", "test.txt", "--json").stdout)
    assert found["perplexity"] == pytest.approx(expected, rel=1e-5)
    loaded = load_as(neglm_cli.LanguageModel, "model.safetensors")
    assert loaded.perplexity("test.txt") == pytest.approx(expected, rel=1e-5)
    assert sum(loaded.score(["the cat sat"])) == pytest.approx(log_probabilities(loss, given)[:4].sum(), rel=1e-5)


def test_a_softmax_model_needs_no_noise_words(neglm: Neglm) -> None:
    given = tensors(bias=True)
    write("model.safetensors", given, loss="softmax", k="0", log_z="0", noise_alpha="1")
    Path("test.txt").write_text(TEXT)
    expected = math.exp(-log_probabilities("softmax", given).mean())
    assert load_as(neglm_cli.LanguageModel, "model.safetensors").perplexity("test.txt") == pytest.approx(
        expected, rel=1e-5
    )


def test_documented_fields_and_arguments_must_agree(neglm: Neglm) -> None:
    given = tensors(bias=False)
    Path("test.txt").write_text(TEXT)
    perplexities = []
    for fields in ({"loss": "neglm"}, {"loss": "neg", "log_z": "0"}, {"loss": "neglm", "noise_alpha": "0"}):
        write("model.safetensors", given, **fields)
        perplexities.append(load_as(neglm_cli.LanguageModel, "model.safetensors").perplexity("test.txt"))
    assert len(set(perplexities)) == 3
    write("model.safetensors", given, loss="neglm", arguments='{"loss":"softmax","k":5}')
    error = one_sentence(neglm("eval", "--test", "test.txt", code=1).stderr)
    assert "`arguments.loss` says softmax and `loss` neglm" in error
    with pytest.raises(NeglmError, match="`arguments.loss` says softmax"):
        load_as(neglm_cli.LanguageModel, "model.safetensors")


def test_older_files_have_reset_at_eos_in_arguments(workplace: Path) -> None:
    given = tensors(bias=False)
    Path("test.txt").write_text(TEXT)
    write("model.safetensors", given, loss="neglm", arguments='{"reset_at_eos":true}')
    expected = math.exp(-log_probabilities("neglm", given, reset=True).mean())
    assert load_as(neglm_cli.LanguageModel, "model.safetensors").perplexity("test.txt") == pytest.approx(
        expected, rel=1e-5
    )
