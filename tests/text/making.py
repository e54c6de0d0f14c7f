"""Vocabularies and corpora from bytes, for tests."""

from pathlib import Path

from neglm_cli.text.corpus import open_corpus
from neglm_cli.text.count import counting
from neglm_cli.text.vocabulary import Vocabulary, build


def no_progress(count: int) -> None:
    pass


def vocabulary_of(
    *texts: bytes,
    directory: Path,
    min_count: int = 1,
    max_vocab: int | None = None,
    threads: int = 2,
    memory: int = 1 << 26,
) -> Vocabulary:
    """Build the vocabulary of texts, written to files named 0, 1, 2, ..."""
    paths = []
    for number, text in enumerate(texts):
        path = directory / str(number)
        path.write_bytes(text)
        paths.append(str(path))
    with counting(open_corpus(paths), threads, memory, no_progress) as counts:
        return build(counts, min_count, max_vocab)


def as_dict(vocabulary: Vocabulary) -> dict[bytes, int]:
    return dict(zip(vocabulary, vocabulary.counts.tolist(), strict=True))


def text_with_phrases(rounds: int) -> bytes:
    """Return lines with `new york city`, `hong kong` or `city` between words that occur once: 12 words per round."""
    lines = b"%d new york city %d\n%d hong kong %d\n%d city %d\n"
    return b"".join(lines % tuple(range(6 * number, 6 * number + 6)) for number in range(rounds))
