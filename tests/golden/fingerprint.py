"""Fingerprints of results: a hash of each tensor, and two values that change little when the tensor does."""

from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from safetensors.numpy import load_file

Fingerprint = dict[str, dict[str, Any]]


def fingerprint(path: Path) -> Fingerprint:
    """Return the hash, the norm, and the product with a fixed vector, of each tensor in a file."""
    found = {}
    for name, tensor in sorted(_as_recorded(load_file(path)).items()):
        flat = np.ascontiguousarray(tensor).reshape(-1)
        values = flat.astype(np.float64)
        found[name] = {
            "shape": list(tensor.shape),
            "hash": xxhash.xxh3_128(flat.view(np.uint8).data).hexdigest(),
            "norm": float(np.linalg.norm(values)),
            "projection": float(values @ np.cos(np.arange(len(values)))),
        }
    return found


def _as_recorded(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Give a checkpoint the tensor `moved` of format version 1, in which results were recorded.

    Version 2 has `last_update_step.*` in its place, and nothing for optimizers that do not need it.
    """
    if "hidden_state" not in tensors:
        return tensors
    steps = [name for name in sorted(tensors) if name.startswith("last_update_step.")]
    moved = np.stack([tensors.pop(name) for name in steps]) if steps else np.zeros((2, 1), np.int32)
    return tensors | {"moved": moved}


def differences(recorded: dict[str, Any], result: dict[str, Any], tolerance: float | None) -> list[str]:
    """Return one line for each tensor or figure that differs."""
    lines = []
    for part in recorded:
        if part == "perplexity":
            limit = tolerance or 0.0
            if abs(result[part] - recorded[part]) > limit * recorded[part]:
                lines.append(f"perplexity {recorded[part]!r}, now {result[part]!r}")
        elif tolerance is None:
            lines += [f"{part}: {line}" for line in _different_bytes(recorded[part], result[part])]
        else:
            lines += [f"{part}: {line}" for line in _beyond_tolerance(recorded[part], result[part], tolerance)]
    return lines


def _different_bytes(recorded: Fingerprint, result: Fingerprint) -> list[str]:
    """Compare the tensors as a multiset of byte strings, regardless of names."""
    hashes = sorted(tensor["hash"] for tensor in result.values())
    lines = []
    for name, tensor in recorded.items():
        if tensor["hash"] in hashes:
            hashes.remove(tensor["hash"])
        else:
            lines.append(f"no tensor has the bytes of {name} {tensor['shape']}")
    lines += [f"{len(hashes)} tensors are new"] if hashes else []
    return lines


def _beyond_tolerance(recorded: Fingerprint, result: Fingerprint, tolerance: float) -> list[str]:
    """Match tensors of the same shape by distance, and name those beyond the tolerance."""
    left = list(result.values())
    lines = []
    for name, tensor in recorded.items():
        same_shape = [other for other in left if other["shape"] == tensor["shape"]]
        if not same_shape:
            lines.append(f"no tensor has the shape of {name} {tensor['shape']}")
            continue
        nearest = min(same_shape, key=lambda other: _distance(tensor, other))
        left.remove(nearest)
        if _distance(tensor, nearest) > tolerance * max(tensor["norm"], 1e-6):
            lines.append(f"{name} differs by {_distance(tensor, nearest) / max(tensor['norm'], 1e-6):.2g} of its norm")
    lines += [f"{len(left)} tensors are new"] if left else []
    return lines


def _distance(one: dict[str, Any], other: dict[str, Any]) -> float:
    return max(abs(one["norm"] - other["norm"]), abs(one["projection"] - other["projection"]))
