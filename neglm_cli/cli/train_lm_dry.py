"""`neglm train-lm --dry-run`: memory, disk space and time of a training."""

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from neglm_cli.cli.options import machine_memory
from neglm_cli.errors import count_of
from neglm_cli.runs.host import Host
from neglm_cli.runs.train_lm import Request

if TYPE_CHECKING:
    from neglm_cli.lm.cuda.gpu import Gpu
    from neglm_cli.lm.job import Texts
    from neglm_cli.settings.train_lm import Settings

TRIED = 10  # minibatches
TRIED_SECONDS = 20.0  # that they may take


def estimate(request: Request, gpu: "Gpu | None", host: Host) -> dict[str, Any]:
    """Return sizes in bytes and the time in seconds, measured on a few minibatches of the text."""
    from neglm_cli.runs.train_lm_jobs import read_inputs

    with ExitStack() as resources:
        inputs = read_inputs(replace(request, cache=False), host, resources)
        return _estimate(inputs.texts, inputs.settings, gpu)


def _estimate(texts: "Texts", settings: "Settings", gpu: "Gpu | None") -> dict[str, Any]:
    from neglm_cli.lm.footprint import footprint
    from neglm_cli.lm.parameters import Shape
    from neglm_cli.settings.losses import LOSSES
    from neglm_cli.store.schema import data_size
    from neglm_cli.text.batches import Batches

    shape = Shape.of(len(texts.words), settings)
    memory = footprint(shape, settings, texts.words.counts, gpu)
    there = machine_memory() if gpu is None else gpu.memory()[0]
    total = sum(memory.values())
    fields = {"layers": settings.layers, "optimizer": settings.optimizer, "tie": settings.tie}
    fields["progress"] = {"averaged": settings.average}
    lengths = {"V": shape.words, "W": len(texts.words.words), "D": shape.embedding, "H": shape.hidden}
    lengths |= {"L": shape.layers, "B": settings.batch}
    words_per_epoch = Batches(texts.corpus, settings.batch, settings.bptt).words
    seconds = _seconds_per_word(texts, settings, gpu) if total < there else None
    return {
        "objective": settings.loss,
        "vocabulary": len(texts.words),
        "parameters": shape.parameters(LOSSES[settings.loss].bias),
        "memory_bytes": memory | {"total": total},
        "disk_bytes": {
            "model": data_size("language model", fields, lengths),
            "checkpoint": data_size("checkpoint", fields, lengths),
            "encoded_copy": 4 * texts.corpus.length,
        },
        "tokens_per_epoch": words_per_epoch,
        "epochs": settings.epochs,
        "words_per_second": None if seconds is None else round(1 / seconds),
        "seconds": None if seconds is None else round(seconds * words_per_epoch * settings.epochs, 1),
    }


def _seconds_per_word(texts: "Texts", settings: "Settings", gpu: "Gpu | None") -> float:
    from neglm_cli.lm.job import Job, new_device
    from neglm_cli.lm.speed import seconds_per_word
    from neglm_cli.settings.progress import Progress

    device = new_device(texts.words, settings, gpu, empty=True)
    found = seconds_per_word(Job(texts, settings, device, Progress()).trainer, TRIED, TRIED_SECONDS)
    device.close()
    return found


def estimate_as_text(expected: dict[str, Any]) -> str:
    memory, disk = expected["memory_bytes"], expected["disk_bytes"]
    lines = [f"{expected['objective']}: {expected['vocabulary']:,} words, {expected['parameters']:,} parameters"]
    parts = ", ".join(f"{name} {_size(size)}" for name, size in memory.items() if name != "total")
    rows = [
        ("memory", f"at most {_size(memory['total'])}: {parts}"),
        ("disk", ", ".join(f"{name.replace('_', ' ')} {_size(size)}" for name, size in disk.items())),
        ("tokens", f"{expected['tokens_per_epoch']:,} per epoch, {count_of(expected['epochs'], 'epoch')}"),
    ]
    if expected["seconds"] is None:
        rows.append(("time", "not tried: this machine does not have so much memory"))
    else:
        rows.append(("time", f"about {_duration(expected['seconds'])}, at {expected['words_per_second']:,} words/s"))
    return "\n".join(lines + [f"  {label:<16}{value}" for label, value in rows])


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count < 1e9 else f"{count / 1e9:,.1f} GB"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
