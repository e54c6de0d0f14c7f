"""Requests for `embed`, and their validation."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from neglm_cli.errors import UsageError
from neglm_cli.runs.checkpoints import (
    CHECKPOINT_INTERVAL,
    CHECKPOINT_SUFFIX,
    check_resumable,
    note_replacing,
    refuse_unfinished,
)
from neglm_cli.runs.corpora import DEFAULT_VOCABULARY
from neglm_cli.runs.host import Host
from neglm_cli.runs.overwriting import refuse_overwriting
from neglm_cli.runs.standard_input import refuse_repeated_stdin
from neglm_cli.scale.agreement import on_rank0
from neglm_cli.scale.launch import ranks
from neglm_cli.settings.embed import ngram_range
from neglm_cli.store.locking import exclusive
from neglm_cli.store.output import check_writable

if TYPE_CHECKING:
    from neglm_cli.runs.embed_training import EmbedTraining
    from neglm_cli.runs.full_batch import FullBatchTraining


@dataclass(frozen=True)
class Request:
    """The arguments of `embed`. Settings that are not given have their defaults, or those of the run to resume."""

    output: str
    given: dict[str, Any] = field(default_factory=dict)  # settings
    corpus: list[str] = field(default_factory=list)  # if empty, the corpus of the vocabulary
    vocab: str | None = None
    pairs: str | None = None  # a table of pairs, instead of a corpus
    init_vectors: str | None = None  # file to start from
    cache: bool = True  # keep the encoded text
    resume: bool = False
    checkpoint: float = CHECKPOINT_INTERVAL  # seconds


def check(request: Request) -> None:
    """Raise UsageError if arguments do not fit together."""
    if "subwords" in request.given:
        ngram_range(request.given["subwords"])
    elif "buckets" in request.given and not request.resume:
        raise UsageError("--buckets is for n-grams: choose their lengths with --subwords, as --subwords 3-6.")
    _check_floret(request.given, request.resume)
    if "cbow" in request.given and "subwords" in request.given:
        raise UsageError("--cbow trains vectors of whole words: leave out --subwords.")
    if request.pairs is not None:
        _check_pairs(request)
    elif "full_batch" in request.given and not request.resume:
        raise UsageError("--full-batch is for a table of pairs: name one with --pairs.")
    if "full_batch" in request.given:
        _check_full_batch(request)
    if request.resume:
        _check_resumed(request)
    refuse_repeated_stdin([*request.corpus, request.pairs])


def _check_floret(given: dict[str, Any], resume: bool) -> None:
    if resume:
        return
    if "floret" in given and "subwords" not in given:
        raise UsageError("--floret is for n-grams: choose their lengths with --subwords, as --subwords 3-6.")
    if "hash_count" in given and "floret" not in given:
        raise UsageError("--hash-count is for --floret: n-grams of fastText have one row.")


def _check_pairs(request: Request) -> None:
    for name in ("window", "sample", "cbow"):
        if name in request.given:
            raise UsageError(f"--{name} is for text: a table of pairs has no windows.")
    if request.corpus:
        raise UsageError("train on a corpus or on --pairs: give one of them.")
    if request.vocab is not None:
        raise UsageError("--vocab is for text: a table of pairs has its own vocabularies.")


def _check_full_batch(request: Request) -> None:
    for name in ("epochs", "lr", "deterministic", "subwords"):
        if name in request.given:
            raise UsageError(f"--{name} is for sampled training: --full-batch runs to convergence.")
    if request.init_vectors is not None:
        raise UsageError("--init-vectors is for sampled training: leave out --full-batch.")
    if request.resume:
        raise UsageError("--full-batch has no checkpoints: leave out --resume.")
    if ranks().size > 1:
        raise UsageError("--full-batch runs in a single process: start it without mpirun.")


def _check_resumed(request: Request) -> None:
    if request.init_vectors is not None:
        raise UsageError("--resume has its vectors already: leave out --init-vectors.")
    if request.vocab is not None:
        raise UsageError("--resume has its vocabulary already: leave out --vocab.")
    check_resumable(request.output)


def check_files(request: Request) -> None:
    """Raise if an output would replace an input, or cannot be written."""
    implied = DEFAULT_VOCABULARY if request.vocab is None and request.pairs is None else None
    read = [*request.corpus, request.vocab, implied, request.pairs, request.init_vectors]
    checkpoint = request.output + CHECKPOINT_SUFFIX
    refuse_overwriting([request.output, checkpoint], read, [checkpoint] if request.resume else [])
    check_writable(request.output)


@contextmanager
def open_training(request: Request, host: Host) -> Iterator["EmbedTraining | FullBatchTraining"]:
    """Prepare the training that a checked request asks for, and lock its output."""
    from neglm_cli.runs import embed_jobs
    from neglm_cli.runs.embed_training import EmbedTraining
    from neglm_cli.runs.full_batch import FullBatchTraining

    with ExitStack() as resources:
        on_rank0(ranks(), lambda: resources.enter_context(exclusive(request.output)))
        if request.resume:
            yield EmbedTraining(embed_jobs.resumed_job(request, host, resources))
            return
        refuse_unfinished(request.output)
        settings = embed_jobs.settings_of(request)
        if settings.full_batch:
            note_replacing(request.output, host.note)
            yield FullBatchTraining(embed_jobs.read_pairs(request.pairs or "", settings, host), settings, host)
            return
        job = embed_jobs.new_job(request, settings, host, resources)
        note_replacing(request.output, host.note)
        yield EmbedTraining(job)
