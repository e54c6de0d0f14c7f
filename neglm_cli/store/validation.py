"""Validation of files against the schema, complete when a file is opened.

In this order: types and limits of metadata; names, types and shapes of tensors; lists of words, finite values and
totals. Invalid files raise `SchemaError`. Memory and time are proportional to the size of the file.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from neglm_cli.settings.losses import LOSSES
from neglm_cli.settings.parameters import LAST_UPDATE_STEP, OPTIMIZERS, Dimension
from neglm_cli.store.rules import Object, SchemaError, quoted
from neglm_cli.store.schema import COMMON_FIELDS, KINDS, NONZERO_DIMENSIONS, Field, Kind, tensors_of
from neglm_cli.store.wordlists import check_words, exact_sum, find_word

Fields = dict[str, Any]
Tensors = Mapping[str, np.ndarray]
Shapes = Mapping[str, tuple[str, tuple[int, ...]]]  # dtype and shape of each tensor

INTEGER = re.compile("-?(0|[1-9][0-9]{0,18})")
CHUNK = 1 << 18  # values checked at a time: they fit into the cache


# --- metadata -----------------------------------------------------------------------------------------


def parse_json(text: str | bytes) -> Any:
    """Parse strict JSON. Raise on duplicate names, NaN and infinity."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def parse_fields(metadata: Mapping[str, Any], kind: Kind) -> Fields:
    """Parse the metadata of a file of this kind. Ignores other metadata."""
    fields = {f.name: _parse(metadata, f) for f in (*COMMON_FIELDS, *kind.fields) if f.default is None}
    for field in kind.fields:
        if field.default is not None:
            stated = fields["arguments"].get(field.name, field.default)
            fields[field.name] = _parse(metadata, field) if field.name in metadata else stated
    return fields


def _parse(metadata: Mapping[str, Any], field: Field) -> Any:
    text = metadata.get(field.name)
    if type(text) is not str:
        raise SchemaError(f"it lacks the field `{field.name}`")
    value: Any = text
    if field.type == "integer" and INTEGER.fullmatch(text):
        value = int(text)
    elif field.type == "JSON":
        try:
            value = parse_json(text)
        except ValueError as error:
            raise SchemaError(f"`{field.name}` is not JSON") from error
    if isinstance(field.rule, Object):
        value = field.rule.with_current_names(value)
    field.rule.check(value, field.name)
    return value


# --- shapes -------------------------------------------------------------------------------------------


def check_shapes(kind: Kind, fields: Fields, found: Shapes) -> dict[str, int]:
    """Check tensors against the schema. Return the lengths of the schema's dimensions."""
    lengths = {"L": fields["layers"]} if "layers" in fields else {}
    expected = {tensor.name: tensor for tensor in tensors_of(kind, fields)}
    for name in found:
        if name not in expected:
            raise SchemaError(f"it has a tensor {quoted(name)}, which its kind and metadata do not allow")
    for name, tensor in expected.items():
        dtype, shape = found.get(name, ("", ()))
        if dtype != tensor.dtype or len(shape) != len(tensor.shape):
            raise SchemaError(f"tensor `{name}` is missing or of the wrong type")
        if not all(_fits(length, expression, lengths) for length, expression in zip(shape, tensor.shape, strict=True)):
            wanted = " × ".join(tensor.shape)
            known = ", ".join(f"{letter} = {lengths[letter]:,}" for letter in sorted(lengths) if letter in wanted)
            raise SchemaError(f"tensor `{name}` has the shape {' × '.join(map(str, shape))}, not {wanted} ({known})")
    if fields.get("tie"):
        lengths["D"] = lengths["H"]
    for option, other in kind.redundant_options.items():
        stated = fields["arguments"].get(option)
        if stated is not None and stated != (actual := fields[other] if other in fields else lengths[other]):
            what = f"`{other}`" if other in fields else "the tensors' shapes"
            raise SchemaError(f"`arguments.{option}` says {stated} and {what} {actual}")
    return lengths


def _fits(length: int, expression: str, lengths: dict[str, int]) -> bool:
    """Return True if a length matches an expression. The first use of a dimension sets its length."""
    times, letter, plus = Dimension.parse(expression)
    if not letter:
        return length == times
    least = 1 if letter in NONZERO_DIMENSIONS else 0
    value = lengths.setdefault(letter, (length - plus) // times)
    return value >= least and length == times * value + plus


# --- contents -----------------------------------------------------------------------------------------


def check_contents(kind_name: str, fields: Fields, lengths: Mapping[str, int], tensors: Tensors) -> None:
    kind = KINDS[kind_name]
    for words in kind.word_lists:
        check_words(words, tensors)
    for tensor in tensors_of(kind, fields):
        if tensor.dtype == "float32" and not _within(tensors[tensor.name], tensor.limit):
            raise SchemaError(f"tensor `{tensor.name}` contains NaN, infinite or absurdly large values")
    if kind_name in CHECKS:
        CHECKS[kind_name](fields, lengths, tensors)


def _within(numbers: np.ndarray, limit: float) -> bool:
    flat = numbers.reshape(-1)
    blocks = (flat[start : start + CHUNK] for start in range(0, flat.size, CHUNK))
    return all(-limit <= block.min() and block.max() <= limit for block in blocks)  # false for NaN


def _check_vocabulary(fields: Fields, lengths: Mapping[str, int], tensors: Tensors) -> None:
    counts = tensors["counts"]
    unknown, line_ends = (
        int(counts[find_word(word, tensors["words"], tensors["offsets"])]) for word in (b"<unk>", b"<eos>")
    )
    lines, unk_count = fields["lines"], fields["unk_tokens"] + fields["oov_tokens"]
    absent = (fields["unk_tokens"] == 0) + (line_ends == lines)
    consistent = (
        unknown == max(1, unk_count)
        and line_ends >= lines
        and exact_sum(counts) == fields["tokens"] + lines + (unk_count == 0)
        and fields["distinct_words"] == lengths["V"] - absent + fields["oov_words"]
        and fields["oov_words"] <= fields["oov_tokens"]
    )
    if not consistent:
        raise SchemaError("its counts and its numbers of lines, tokens and words do not add up")


def _check_encoded(fields: Fields, lengths: Mapping[str, int], tensors: Tensors) -> None:
    if lengths["N"] and tensors["ids"].min() < 0:
        raise SchemaError("it has ids below 0")


def _check_vectors(fields: Fields, lengths: Mapping[str, int], tensors: Tensors) -> None:
    if fields["progress"]["done"] > fields["progress"]["total"]:
        raise SchemaError("`progress.done` is larger than `progress.total`")
    _check_subwords(fields, lengths)


def _check_quantized(fields: Fields, lengths: Mapping[str, int], tensors: Tensors) -> None:
    if lengths["P"] != -(-lengths["D"] // fields["dsub"]):
        raise SchemaError(f"it has {lengths['P']} codes for {lengths['D']} dimensions in parts of {fields['dsub']}")
    _check_subwords(fields, lengths)


def _check_subwords(fields: Fields, lengths: Mapping[str, int]) -> None:
    if fields["buckets"] != lengths.get("G", 0):
        raise SchemaError(f"`buckets` says {fields['buckets']} and the tensors' shapes {lengths.get('G', 0)}")
    if bool(fields["buckets"]) != bool(fields["subwords"]):
        raise SchemaError("it has one of `subwords` and `buckets` without the other")
    if fields["hash_count"] and not fields["buckets"]:
        raise SchemaError("it has `hash_count` without `buckets`")


def _check_model(fields: Fields, lengths: Mapping[str, int], tensors: Tensors) -> None:
    name, loss = fields["loss"], LOSSES[fields["loss"]]
    if fields["k"] == 0 and loss.sampled:
        raise SchemaError(f"`k` is 0, and the loss `{name}` needs noise words")
    if fields["log_z"] != 0 and not loss.log_z:
        raise SchemaError(f"`log_z` is not 0, but the loss `{name}` has no log Z")
    if not loss.bias and tensors["output_bias"].any():
        raise SchemaError(f"`output_bias` is not 0, but the loss `{name}` has no bias")


def _check_checkpoint(fields: Fields, lengths: Mapping[str, int], tensors: Tensors) -> None:
    _check_model(fields, lengths, tensors)
    progress = fields["progress"]
    epoch, step = progress.get("epoch", 0), progress.get("step", 0)
    if fields["k"] == 0:
        raise SchemaError("`k` is 0")
    nonnegative = [f"{each.name}." for each in OPTIMIZERS[fields["optimizer"]].state if each.nonnegative]
    for name, tensor in tensors.items():
        if name.startswith(f"{LAST_UPDATE_STEP}.") and (tensor.min() < 0 or tensor.max() > step):
            raise SchemaError(f"tensor `{name}` has steps outside of 0 to {step:,}")
        if name.startswith(tuple(nonnegative)) and tensor.min() < 0:
            raise SchemaError(f"tensor `{name}` has negative values")
    if len(progress.get("epoch_losses", [])) != epoch:
        raise SchemaError("`progress` does not have a loss for each epoch")
    if len(progress.get("valid_perplexities", [])) not in (0, epoch):
        raise SchemaError("`progress` does not have a validation perplexity for each epoch")


CHECKS: dict[str, Callable[[Fields, Mapping[str, int], Tensors], None]] = {
    "vocabulary": _check_vocabulary,
    "encoded corpus": _check_encoded,
    "vectors": _check_vectors,
    "quantized vectors": _check_quantized,
    "language model": _check_model,
    "checkpoint": _check_checkpoint,
}
