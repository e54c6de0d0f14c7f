"""Version 1 of the file format, translated to version 2 when a header is read: the same contents under older names."""

import json
import re
from collections.abc import Mapping
from typing import Any

from neglm_cli.settings.parameters import CELL_STATE, HIDDEN_STATE, LAST_UPDATE_STEP, tables
from neglm_cli.store.entry import Entry
from neglm_cli.store.rules import SchemaError, quoted
from neglm_cli.store.validation import parse_json

VERSION = "1"

KINDS = {"training state": "checkpoint"}
FIELDS = {
    "cut_tokens": "oov_tokens",
    "cut_words": "oov_words",
    "distinct": "distinct_words",
    "modified": "mtimes_ns",
    "moments": "optimizer",
    "unknown_in_text": "unk_tokens",
}
PROGRESS = {"loss": "loss_sum", "losses": "epoch_losses", "validations": "valid_perplexities"}
OPTIMIZERS = {"0": "sgd", "1": "adagrad", "2": "adam"}  # the number of moments
TENSORS = {"cell": CELL_STATE, "contexts": "context_vectors", "hidden": HIDDEN_STATE}
MOMENTS = {"adagrad": {"moment.0.": "sum."}, "adam": {"moment.0.": "exp_avg_sq.", "moment.1.": "exp_avg."}}
LAYER_WEIGHTS = {"input": "w_ih", "recurrent": "w_hh"}
MOVED = "moved"  # last_update_step of all tables, one row each; a single column unless Adam uses it


def translate_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata with the names of version 2. Invalid values stay as they are, for the validation to find."""
    found = _renamed(metadata, FIELDS)
    found["kind"] = _looked_up(KINDS, found.get("kind"))
    if "optimizer" in found:
        found["optimizer"] = _looked_up(OPTIMIZERS, found["optimizer"])
    if found["kind"] in ("language model", "checkpoint") and isinstance(found.get("progress"), str):
        try:
            progress = parse_json(found["progress"])
        except ValueError:
            return found
        if isinstance(progress, dict):
            found["progress"] = json.dumps(_renamed(progress, PROGRESS))
    return found


def translate_tensors(entries: Mapping[str, Entry], metadata: Mapping[str, Any]) -> dict[str, Entry]:
    """Return tensors with the names of version 2. metadata: as translated."""
    optimizer = metadata.get("optimizer")
    prefixes = MOMENTS.get(optimizer, {}) if isinstance(optimizer, str) else {}
    found = _renamed(entries, {name: _tensor_name(name, prefixes) for name in entries})
    if MOVED in found and metadata.get("kind") == "checkpoint":
        moved = found.pop(MOVED)
        if moved.shape[:1] != (len(tables()),) or moved.start == moved.end:
            raise SchemaError(f"tensor `{MOVED}` has the wrong shape")
        if optimizer == "adam":
            found |= {f"{LAST_UPDATE_STEP}.{table}": row for table, row in zip(tables(), moved.rows(), strict=True)}
    return found


def _tensor_name(name: str, prefixes: Mapping[str, str]) -> str:
    for old, new in prefixes.items():
        if name.startswith(old):
            return new + _tensor_name(name.removeprefix(old), {})
    match = re.fullmatch(r"(lstm\.\d+\.)(\w+)", name)
    if match:
        return match[1] + LAYER_WEIGHTS.get(match[2], match[2])
    return TENSORS.get(name, name)


def _renamed(found: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Rename keys. Raise if two get the same name."""
    renamed = {names.get(name, name): value for name, value in found.items()}
    if len(renamed) < len(found):
        twice = next(new for old, new in names.items() if old != new and old in found and new in found)
        raise SchemaError(f"it has {quoted(twice)}, which version 1 of the format does not have")
    return renamed


def _looked_up(table: Mapping[str, str], value: Any) -> Any:
    return table.get(value, value) if isinstance(value, str) else value
