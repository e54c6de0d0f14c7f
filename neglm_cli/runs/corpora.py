"""The texts of a run, and its vocabulary."""

import os
from collections.abc import Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from neglm_cli.errors import NeglmError, count_of, empty, shown
from neglm_cli.runs.host import Host
from neglm_cli.scale.agreement import broadcast_from_rank0, check_same
from neglm_cli.scale.launch import ranks
from neglm_cli.store.output import STANDARD_STREAM

if TYPE_CHECKING:
    from neglm_cli.text.corpus import Corpus
    from neglm_cli.text.vocabulary import Vocabulary
    from neglm_cli.text.word_index import WordIndex

DEFAULT_VOCABULARY = "vocab.safetensors"
SAME_FILES = "all machines must see the same files"
COUNTING_MEMORY = 1 << 30  # bytes for counting a text without a vocabulary; larger tables are spilled to disk


def refuse_pipes(pipes: Iterable[str]) -> None:
    """Raise if several ranks would have to read the same pipe."""
    if ranks().size > 1 and (pipe := next(iter(pipes), None)):
        name = "standard input" if pipe == STANDARD_STREAM else shown(pipe)
        raise NeglmError(f"{name} cannot be read by {ranks().size} processes: put the text in a file, and name that")


def check_texts(corpus: "Corpus") -> None:
    """Raise unless all ranks see the same files, judging by their sizes and samples of their bytes."""
    from neglm_cli.text.provenance import sample

    if ranks().size > 1:
        refuse_pipes(source.path for source in corpus.sources if source.size < 0)
        seen = [(source.name, source.size, sample(source)) for source in corpus.sources]
        check_same(ranks(), "texts", seen, SAME_FILES)


def check_same_inputs(words: "WordIndex", files: list[dict[str, Any]]) -> None:
    """Raise unless all ranks have the same vocabulary and texts. files: records of the texts."""
    check_same(ranks(), "vocabulary", words.identity, SAME_FILES)
    check_same(ranks(), "texts", fingerprints(files), SAME_FILES)


def fingerprints(files: list[dict[str, Any]]) -> list[str]:
    return [file["fingerprint"] for file in files]


def has_vocabulary(vocab: str | None) -> bool:
    """Return True if a vocabulary is named or in the current directory, so that no text has to be counted."""
    return vocab is not None or os.path.exists(DEFAULT_VOCABULARY)


class InputFiles:
    """Input files named by the user. A pipe is copied, because its text is read more than once."""

    def __init__(self, paths: list[str], copies: ExitStack) -> None:
        self._paths = paths
        self._pipes = {
            path for path in paths if path == STANDARD_STREAM or (os.path.exists(path) and not os.path.isfile(path))
        }
        refuse_pipes(self._pipes)
        self._labels: dict[str, str] = {}  # names of copies in messages
        self._readable = [self._copied(path, copies) if path in self._pipes else path for path in paths]

    def _copied(self, path: str, copies: ExitStack) -> str:
        from neglm_cli.store.container import open_seekable

        copy = copies.enter_context(open_seekable(path))
        if not os.path.getsize(copy.location):
            raise NeglmError(empty(copy.name))
        self._labels[copy.location] = copy.name
        return copy.location

    def __bool__(self) -> bool:
        return bool(self._paths)

    def open(self) -> "Corpus":
        """Open the files as one text; messages name a copy after its pipe."""
        from neglm_cli.text.corpus import open_corpus

        return open_corpus(self._readable, self._labels)

    @property
    def any_pipe(self) -> bool:
        return bool(self._pipes)

    def records(self, corpus: "Corpus", threads: int) -> list[dict[str, Any]]:
        """Return the provenance of a corpus, which consists of these files or, if none was named, of others."""
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
    inputs: InputFiles, vocab: str | None, limits: tuple[int, int | None], threads: int, host: Host
) -> "tuple[Vocabulary, list[dict[str, Any]]]":
    """Load the named or the default vocabulary; return it with the corpus that it records. If there is none, count the
    named files. limits: min_count and max_vocab."""
    from neglm_cli.text.count import counting
    from neglm_cli.text.vocabulary import Vocabulary, build, gather_counts

    if not has_vocabulary(vocab):
        if not inputs:
            raise NeglmError(
                f"there is no {DEFAULT_VOCABULARY} here: name a corpus, or make a vocabulary with `neglm vocab` first"
            )
        opened = inputs.open()
        check_texts(opened)
        with (
            host.track("counting words", opened.size) as tracker,
            counting(opened, threads, COUNTING_MEMORY, tracker.advance, ranks=ranks()) as counts,
        ):
            gathered = gather_counts(counts, *limits, ranks())
            return broadcast_from_rank0(ranks(), lambda: build(gathered, *limits)), []
    path = DEFAULT_VOCABULARY if vocab is None else vocab
    vocabulary = Vocabulary.load(path)
    host.note(f"using the vocabulary {shown(path)} ({count_of(len(vocabulary), 'entry')})")
    return vocabulary, vocabulary.files


def open_named_or_recorded(
    inputs: InputFiles, files: list[dict[str, Any]], vocab: str | None, threads: int, host: Host
) -> "Corpus":
    """Open the named files or, if there are none, the corpus that the vocabulary records."""
    from neglm_cli.text.provenance import reopen

    if inputs:
        return inputs.open()
    opened = reopen(files, vocab or DEFAULT_VOCABULARY, threads)
    host.note(f"training on {opened.name}, the corpus of the vocabulary")
    return opened
