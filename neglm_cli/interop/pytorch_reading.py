"""Reading of PyTorch's LSTM language models: folders of `interop.pytorch`, and the state dicts of other programs, with
the names that they give to the embedding and the output layer."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from neglm_cli.errors import NeglmError, shown
from neglm_cli.interop.network import Layer, Network
from neglm_cli.interop.pytorch import CONFIG, WEIGHTS, WORDS
from neglm_cli.store.rules import quoted
from neglm_cli.store.schema import MAX_WEIGHT
from neglm_cli.store.state_dict import read_state_dict
from neglm_cli.store.validation import parse_json
from neglm_cli.text.tokens import END_OF_LINE, UNKNOWN
from neglm_cli.text.word_index import WordIndex

WORDS_AS_JSON = "vocab.json"  # word → id, as other programs write it
LSTM_WEIGHTS = re.compile(r"(.*\.|)weight_ih_l(\d+)")
EMBEDDING_NAMES = ("embedding", "encoder", "input_embedding", "embed", "emb", "wte")
OUTPUT_NAMES = ("output", "decoder", "output_linear", "lm_head", "linear", "fc", "head", "proj")
MAX_COUNT = 2**62


def read(path: str) -> Network:
    """Read a folder with `model.safetensors`, a state dict, and `vocab.txt` or `vocab.json`."""
    if not os.path.isdir(path):
        raise NeglmError(f"{shown(path)} is not a folder: name one with {WEIGHTS} and {WORDS}")
    name = shown(os.path.join(path, WEIGHTS))
    every = read_state_dict(os.path.join(path, WEIGHTS))
    tensors = {key: tensor for key, tensor in every.items() if tensor.dtype == np.float32}
    for key, tensor in tensors.items():
        if not (np.abs(tensor) <= MAX_WEIGHT).all():
            raise NeglmError(f"{name}: tensor {quoted(key)} contains NaN, infinite or too large values")
    layers = _layers(tensors, name)
    inputs, hidden = layers[0].w_ih.shape[0], layers[0].w_hh.shape[0]
    words = _words(path)
    embedding = _find(tensors, EMBEDDING_NAMES)
    if embedding is None:
        raise NeglmError(f"{name} has no embedding: expected {_either(EMBEDDING_NAMES)}")
    output = _find(tensors, OUTPUT_NAMES)
    if output is None and inputs != hidden:
        raise NeglmError(f"{name} has no output layer: expected {_either(OUTPUT_NAMES)}")
    output = embedding if output is None else output  # tied
    bias = _find(tensors, OUTPUT_NAMES, "bias")
    _check_shape(tensors, embedding, (len(words), inputs), name)
    _check_shape(tensors, output, (len(words), hidden), name)
    if bias is not None:
        _check_shape(tensors, bias, (len(words),), name)
    biases = np.zeros(len(words), np.float32) if bias is None else tensors[bias]
    return Network(words, tensors[embedding], layers, tensors[output], biases, _reset_at_eos(path))


def _check_shape(tensors: Mapping[str, np.ndarray], key: str, expected: tuple[int, ...], name: str) -> None:
    """Raise unless a tensor has the shape that the words and the LSTM require."""
    if tensors[key].shape != expected:
        found, wanted = (" × ".join(f"{length:,}" for length in shape) for shape in (tensors[key].shape, expected))
        raise NeglmError(f"{name}: tensor {quoted(key)} is {found}, but the words and the LSTM need {wanted}")


def _layers(tensors: Mapping[str, np.ndarray], name: str) -> list[Layer]:
    found = [match for key in tensors if (match := LSTM_WEIGHTS.fullmatch(key))]
    prefixes = {match[1] for match in found}
    if len(prefixes) != 1:
        what = "several LSTMs" if prefixes else "no LSTM (weight_ih_l0)"
        raise NeglmError(f"{name} has {what}: a language model of neglm has one, as nn.LSTM names its weights")
    (prefix,) = prefixes
    if any(key.startswith(prefix) and key.endswith("_reverse") for key in tensors):
        raise NeglmError(f"{name} has a bidirectional LSTM, which is not a language model")
    layers: list[Layer] = []
    for number in range(len(found)):
        keys = [f"{prefix}{kind}_l{number}" for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        if missing := [key for key in keys[:2] if key not in tensors]:
            raise NeglmError(f"{name} has no tensor {quoted(missing[0])}")
        w_ih, w_hh = (tensors[key] for key in keys[:2])
        if layers:
            inputs = hidden = layers[0].w_hh.shape[0]
        else:
            inputs, hidden = (array.shape[-1] if array.ndim else 0 for array in (w_ih, w_hh))
        if w_ih.shape != (4 * hidden, inputs) or w_hh.shape != (4 * hidden, hidden) or not hidden * inputs:
            raise NeglmError(f"{name}: {keys[0]} and {keys[1]} do not have the shapes of nn.LSTM's layer {number}")
        bias = np.zeros(4 * hidden, np.float32)
        for key in keys[2:]:
            if key in tensors:
                _check_shape(tensors, key, bias.shape, name)
                bias = bias + tensors[key]
        layers.append(Layer(np.ascontiguousarray(w_ih.T), np.ascontiguousarray(w_hh.T), bias))
    return layers


def _find(tensors: Mapping[str, np.ndarray], names: Sequence[str], kind: str = "weight") -> str | None:
    """Return the name of the tensor of a module that has one of these names, in any parent module."""
    candidates = (key for each in names for key in tensors if f".{key}".endswith(f".{each}.{kind}"))
    return next(candidates, None)


def _either(names: Sequence[str]) -> str:
    return f"{', '.join(f'{each}.weight' for each in names[:-1])} or {names[-1]}.weight"


def _words(folder: str) -> WordIndex:
    """Read the words and their counts, in the order of ids. Those of `vocab.json` count 1."""
    as_text, as_json = (os.path.join(folder, name) for name in (WORDS, WORDS_AS_JSON))
    try:
        if os.path.exists(as_text):
            name, words, counts = shown(as_text), *_parse_lines(Path(as_text).read_bytes(), shown(as_text))
        else:
            name = shown(as_json)
            words = _parse_json(Path(as_json).read_bytes(), name)
            counts = [1] * len(words)
    except FileNotFoundError as error:
        raise NeglmError(
            f"{shown(folder)} has no words: expected {WORDS} (word TAB count) or {WORDS_AS_JSON} (word to id)"
        ) from error
    except OSError as error:
        raise NeglmError(f"cannot read {error.filename}: {error.strerror or error}") from error
    for word in (END_OF_LINE, UNKNOWN):
        if word not in words:
            raise NeglmError(f"{name} has no {word.decode()}: every language model needs one")
    if len(set(words)) < len(words):
        raise NeglmError(f"{name} has a word twice")
    if odd := next((word for word in words if word.split() != [word]), None):
        raise NeglmError(f"{name}: {odd!r} is not a word: it is empty or has white space inside")
    return WordIndex.of(words, np.array(counts))


def _parse_lines(text: bytes, name: str) -> tuple[list[bytes], list[int]]:
    words, counts = [], []
    for number, line in enumerate(text.removesuffix(b"\n").split(b"\n"), 1):
        word, _, count = line.partition(b"\t")
        if not (count.isdigit() and len(count) < 20 and 0 < int(count) <= MAX_COUNT):
            raise NeglmError(f"{name}, line {number}: expected a word, a tab, and a count of at least 1")
        words.append(word)
        counts.append(int(count))
    return words, counts


def _parse_json(text: bytes, name: str) -> list[bytes]:
    try:
        ids = parse_json(text)
        ordered = sorted(ids, key=ids.__getitem__)
        if [ids[word] for word in ordered] != list(range(len(ids))):
            raise ValueError("ids")
        return [word.encode() for word in ordered]
    except (ValueError, TypeError, AttributeError) as error:
        raise NeglmError(f"{name} is not a JSON object with a different id, from 0 on, for each word") from error


def _reset_at_eos(folder: str) -> bool:
    """Return the value in `config.json`; False without it."""
    try:
        config = parse_json((Path(folder) / CONFIG).read_bytes())
        return bool(config.get("reset_at_eos", False))
    except (OSError, ValueError, AttributeError):
        return False
