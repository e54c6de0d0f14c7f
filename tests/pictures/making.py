"""Logs of trainings, for tests."""

import json
from typing import Any


def report(step: int, seconds: float, loss: float, log_z: float = 0.1, tokens: int | None = None) -> dict[str, Any]:
    """tokens: the number that it covers, which old logs lack."""
    found = {"loss": loss, "gradient_norm": 5.0, "log_z_mean": log_z, "log_z_std": 0.2}
    found |= {} if tokens is None else {"loss_tokens": tokens}
    return _record("progress", step, seconds) | found


def epoch_end(step: int, seconds: float, loss: float, perplexity: float | None = None) -> dict[str, Any]:
    found = {"loss": loss} if perplexity is None else {"loss": loss, "valid_perplexity": perplexity, "best": True}
    return _record("epoch", step, seconds) | found


def end(step: int, seconds: float) -> dict[str, Any]:
    return _record("end", step, seconds)


def lines(*records: dict[str, Any]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def training(epochs: int, best: float = 100.0) -> list[dict[str, Any]]:
    """Return a whole training, ten reports per epoch, with decreasing loss and perplexity, the latter to `best`."""
    records = []
    for epoch in range(1, epochs + 1):
        steps = range(1000 * (epoch - 1) + 100, 1000 * epoch, 100)
        records += [report(step, step / 10, 4 + 2000 / step) for step in steps]
        records.append(epoch_end(1000 * epoch, 100.0 * epoch, 5.0, best * (1 + (epochs - epoch) / 2)))
    return [*records, end(1000 * epochs, 100.0 * epochs)]


def _record(event: str, step: int, seconds: float) -> dict[str, Any]:
    return {
        "event": event, "epoch": -(-step // 1000), "step": step, "tokens": 400 * step, "seconds": seconds,
        "words_per_second": 4000, "learning_rate": 1.0,
    }  # fmt: skip
