"""Requests for `train-lm`, and their validation."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from neglm_cli.errors import UsageError
from neglm_cli.runs.checkpoints import (
    CHECKPOINT_INTERVAL,
    CHECKPOINT_SUFFIX,
    check_resumable,
    checkpoint_path,
    note_replacing,
    refuse_unfinished,
)
from neglm_cli.runs.corpora import DEFAULT_VOCABULARY, has_vocabulary
from neglm_cli.runs.host import Host
from neglm_cli.runs.overwriting import refuse_overwriting
from neglm_cli.runs.standard_input import refuse_repeated_stdin
from neglm_cli.scale.agreement import on_rank0
from neglm_cli.scale.launch import ranks
from neglm_cli.settings.losses import LOSSES, LOSSES_WITH_LOG_Z
from neglm_cli.settings.train_lm import PRESETS, Settings
from neglm_cli.store.locking import exclusive
from neglm_cli.store.output import check_writable

if TYPE_CHECKING:
    from neglm_cli.runs.train_lm_training import LmTraining

WORDS_OF_1B = 64_000


@dataclass(frozen=True)
class Request:
    """The arguments of `train-lm`. Settings that are not given come from the preset, or from the run to resume."""

    output: str
    given: dict[str, Any] = field(default_factory=dict)  # settings
    preset: str = "ptb"
    corpus: list[str] = field(default_factory=list)  # if empty, the corpus of the vocabulary
    vocab: str | None = None
    min_count: int | None = None  # for a corpus without a vocabulary
    max_vocab: int | None = None  # likewise
    valid: list[str] = field(default_factory=list)
    init_vectors: str | None = None  # file whose vectors initialize the embedding
    cache: bool = True  # keep the encoded text
    device: str = "auto"
    resume: bool = False
    checkpoint: float = CHECKPOINT_INTERVAL  # seconds

    @property
    def counted(self) -> dict[str, int | None]:
        """Settings of the vocabulary that is made from the corpus."""
        return {"min_count": self.min_count, "max_vocab": self.max_vocab}

    @property
    def limits(self) -> tuple[int, int | None]:
        """min_count and max_vocab."""
        return self.min_count or 1, self.max_vocab or (WORDS_OF_1B if self.preset == "1b" else None)


def check(request: Request, writes: bool = True) -> None:
    """Raise UsageError if arguments do not fit together. writes: False for a dry run."""
    if request.resume:
        _check_resumed(request)
    else:
        _check_settings(request)
    for name, value in request.counted.items():
        if value is not None and (request.resume or has_vocabulary(request.vocab)):
            option = name.replace("_", "-")
            raise UsageError(f"--{option} is for a text whose words are counted: there is a vocabulary already.")
    refuse_repeated_stdin([*request.corpus, *request.valid])
    if request.valid and not checkpoint_path(request.output) and writes:
        raise UsageError("--valid keeps the best model in a file: name one with --output.")


def _check_settings(request: Request) -> None:
    given, loss = request.given, request.given.get("loss", Settings.loss)
    if "log_z" in given and not LOSSES[loss].log_z:
        *others, last = LOSSES_WITH_LOG_Z
        raise UsageError(f"--log-z is for --loss {', '.join(others)} and {last}.")
    if "bias_init" in given and not LOSSES[loss].bias:
        raise UsageError(f"--bias-init is for losses with a bias: {loss} has none.")
    chosen = PRESETS[request.preset] | given
    if chosen.get("tie"):
        hidden = chosen.get("hidden", Settings.hidden)
        if given.get("embedding", hidden) != hidden:
            raise UsageError(f"--tie needs --embedding {hidden}, as many dimensions as hidden units; or use --no-tie.")
        if "init_output" in given:
            raise UsageError("--init-output is for an output table of its own: with --tie, --init-range counts.")
    if "adam" in given and chosen.get("optimizer", Settings.optimizer) != "adam":
        raise UsageError("--adam is for --optimizer adam.")
    if chosen.get("weight_decay") and chosen.get("adam") == "exact":
        raise UsageError("--weight-decay needs --adam lazy: rows of tables decay when they have a gradient.")
    _check_schedule(chosen, request)
    if "patience" in given and not request.valid:
        raise UsageError("--patience needs a text to validate on: give one with --valid.")


def _check_schedule(chosen: dict[str, Any], request: Request) -> None:
    schedule = chosen.get("schedule", Settings.schedule)
    if schedule == "plateau" and not request.valid:
        raise UsageError("--schedule plateau needs a text to validate on: give one with --valid.")
    if schedule == "cosine" and chosen.get("adam") == "exact":
        raise UsageError("--adam exact needs a learning rate that is constant in an epoch: not --schedule cosine.")
    if schedule == "cosine" and "decay" in request.given:
        raise UsageError("--decay is for --schedule step or plateau.")
    if schedule != "step" and "decay_from" in request.given:
        raise UsageError("--decay-from is for --schedule step.")


def _check_resumed(request: Request) -> None:
    if request.vocab is not None or request.preset != "ptb":
        raise UsageError("--resume has its vocabulary and settings already: leave out --vocab and --preset.")
    check_resumable(request.output)
    if request.init_vectors is not None:
        raise UsageError("--resume has its vectors already: leave out --init-vectors.")


def check_files(request: Request, *outputs: str | None) -> None:
    """Raise if an output would replace an input, or cannot be written. outputs: further ones."""
    read = [*request.corpus, *request.valid, request.vocab or DEFAULT_VOCABULARY, request.init_vectors]
    checkpoint = request.output + CHECKPOINT_SUFFIX
    refuse_overwriting([request.output, checkpoint, *outputs], read, [checkpoint] if request.resume else [])
    check_writable(request.output)


@contextmanager
def open_training(request: Request, host: Host) -> Iterator["LmTraining"]:
    """Prepare the training that a checked request asks for, and lock its output."""
    from neglm_cli.lm.devices import check_precision
    from neglm_cli.runs import train_lm_jobs
    from neglm_cli.runs.resources import find_gpu
    from neglm_cli.runs.train_lm_training import LmTraining

    gpu = find_gpu(request.device, host.note)
    check_precision(request.given.get("precision", Settings.precision), gpu)  # before the long work on the texts
    with ExitStack() as resources:
        on_rank0(ranks(), lambda: resources.enter_context(exclusive(request.output)))
        if request.resume:
            job = train_lm_jobs.resumed_job(request, gpu, host, resources)
        else:
            refuse_unfinished(request.output)
            inputs = train_lm_jobs.read_inputs(request, host, resources)
            note_replacing(request.output, host.note)
            job = train_lm_jobs.new_job(inputs, gpu, host)
            del inputs  # training needs the memory of its vectors
        resources.callback(job.device.close)
        yield LmTraining(job, host)
