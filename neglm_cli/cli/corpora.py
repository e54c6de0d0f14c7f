"""The text that a training reads, and the vocabulary it reads it with."""

import os
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import typer

from neglm_cli.cli.console import console
from neglm_cli.cli.progress import Progress
from neglm_cli.errors import NeglmError, count_of, empty, shown
from neglm_cli.scale.agreement import broadcast_from_rank0, check_same
from neglm_cli.scale.launch import ranks
from neglm_cli.store.output import STANDARD_STREAM, is_regular_output

if TYPE_CHECKING:
    from neglm_cli.text.corpus import Corpus
    from neglm_cli.text.vocabulary import Vocabulary

DEFAULT_VOCABULARY = "vocab.safetensors"
PARTIAL = ".partial"  # behind the name of the output: the state of a training that is not finished
CHECKPOINT_SHARE = 20  # checkpoints are apart at least so many times the time that writing one takes
COUNTING_MEMORY = 1 << 30  # bytes for the words of a text without a vocabulary; more goes to disk


def refuse_pipes(pipes: Iterable[str]) -> None:
    """Only one of several processes could read them."""
    if ranks().size > 1 and (pipe := next(iter(pipes), None)):
        name = "standard input" if pipe == STANDARD_STREAM else shown(pipe)
        raise NeglmError(f"{name} cannot be read by {ranks().size} processes: put the text in a file, and name that")


def check_texts(corpus: "Corpus") -> None:
    """All processes must see the same files: of the same sizes, and with the same bytes here and there."""
    from neglm_cli.text.provenance import sample

    if ranks().size > 1:
        refuse_pipes(source.path for source in corpus.sources if source.size < 0)
        seen = [(source.name, source.size, sample(source)) for source in corpus.sources]
        check_same(ranks(), "texts", seen, "all machines must see the same files")


def has_vocabulary(vocab: str | None) -> bool:
    """Whether a vocabulary is named or lies here, so that no text has to be counted."""
    return vocab is not None or os.path.exists(DEFAULT_VOCABULARY)


def state_beside(output: str) -> str:
    """Where the state of a training is kept; nowhere if its output is no file."""
    return output + PARTIAL if is_regular_output(output) else ""


def last_state(state: str) -> str:
    """What a training that fails says about the state that it has saved."""
    if not os.path.exists(state):
        return f"{shown(state)}, which had the last good state, is gone"
    return f"{shown(state)} has the last good state"


def refuse_unfinished(output: str) -> None:
    """A new training does not replace the state of one that was cut short: it may be days of work."""
    state = state_beside(output)
    if state and os.path.exists(state):
        raise typer.BadParameter(
            f"{shown(state)} is a training that is not finished: go on with --resume, or delete it to start again."
        )


def nothing_to_resume(output: str, start_from: str) -> NeglmError:
    """The error of --resume without a state; `start_from` is the option that starts from the vectors of a file."""
    if not os.path.exists(output):
        return NeglmError(f"nothing to resume: {shown(output + PARTIAL)} does not exist; start without --resume")
    name = shown(output)
    return NeglmError(
        f"{name} is finished, and only an unfinished training can be resumed: to train for more epochs, start again "
        f"without --resume; with {start_from} {name} and another output, a new training starts from its vectors"
    )


def note_replacing(output: str) -> None:
    """Say which finished model a training will replace."""
    if state_beside(output) and os.path.exists(output):
        written = time.strftime("%Y-%m-%d %H:%M", time.localtime(os.path.getmtime(output)))
        console.note(f"this training will replace {shown(output)} (written {written})")


class Named:
    """Files that the user named. A pipe can be read once, and training reads its text once an epoch and once to count
    it: so it is copied."""

    def __init__(self, paths: list[str], copies: ExitStack) -> None:
        self._paths = paths
        self._pipes = {
            path for path in paths if path == STANDARD_STREAM or (os.path.exists(path) and not os.path.isfile(path))
        }
        refuse_pipes(self._pipes)
        self.labels: dict[str, str] = {}  # of copies: what the user calls them
        self.readable = [self._copied(path, copies) if path in self._pipes else path for path in paths]

    def _copied(self, path: str, copies: ExitStack) -> str:
        from neglm_cli.store.container import open_seekable

        console.announce_standard_input([path])
        copy = copies.enter_context(open_seekable(path))
        if not os.path.getsize(copy.location):
            raise NeglmError(empty(copy.name))
        self.labels[copy.location] = copy.name
        return copy.location

    @property
    def any_pipe(self) -> bool:
        return bool(self._pipes)

    def records(self, corpus: "Corpus", threads: int) -> list[dict[str, Any]]:
        """What to remember of each file of the corpus, which is these or, where there are none, another one."""
        from neglm_cli.text.provenance import fingerprint

        files = [
            {"path": source.path, "size": source.size, "fingerprint": fingerprint(source, threads)}
            for source in corpus.sources
        ]
        for file, path in zip(files, self._paths, strict=False):
            if path in self._pipes:
                file["path"] = None
        return files


def find_vocabulary(
    readable: list[str], vocab: str | None, min_count: int, max_vocab: int | None, threads: int
) -> "tuple[Vocabulary, list[dict[str, Any]]]":
    """The vocabulary of this name, or the one that lies here, with the corpus that it remembers; without any, that of
    the corpus."""
    from neglm_cli.text.corpus import open_corpus
    from neglm_cli.text.count import counting
    from neglm_cli.text.vocabulary import Vocabulary, build, gather_counts

    processes = ranks()
    if not has_vocabulary(vocab):
        if not readable:
            raise NeglmError(
                f"there is no {DEFAULT_VOCABULARY} here: name a corpus, or make a vocabulary with `neglm vocab` first"
            )
        opened = open_corpus(readable)
        check_texts(opened)
        with (
            Progress("counting words", opened.size) as progress,
            counting(opened, threads, COUNTING_MEMORY, progress.advance, ranks=processes) as counts,
        ):
            together = gather_counts(counts, min_count, max_vocab, processes)
            return broadcast_from_rank0(processes, lambda: build(together, min_count, max_vocab)), []
    path = DEFAULT_VOCABULARY if vocab is None else vocab
    vocabulary = Vocabulary.load(path)
    console.note(f"using the vocabulary {shown(path)} ({count_of(len(vocabulary), 'entry')})")
    return vocabulary, vocabulary.files


def open_named_or_remembered(
    readable: list[str], files: list[dict[str, Any]], vocab: str | None, threads: int
) -> "Corpus":
    """The corpus that was named, or the one that the vocabulary remembers."""
    from neglm_cli.text.corpus import open_corpus
    from neglm_cli.text.provenance import reopen

    if readable:
        return open_corpus(readable)
    opened = reopen(files, vocab or DEFAULT_VOCABULARY, threads)
    console.note(f"training on {opened.name}, the corpus of the vocabulary")
    return opened


def refuse_changes(started: Any, given: dict[str, Any], free: Sequence[str] = ()) -> None:
    """A training goes on as it was started; `free` are options that may change on the way."""
    for name, value in given.items():
        if getattr(started, name) != value and name not in free:
            option = name.replace("_", "-")
            raise NeglmError(
                f"this training was started with --{option} {getattr(started, name)}: leave out --{option}, or start "
                "again without --resume"
            )
