"""Finding a few words among many, and other cases of a word."""

import numpy as np

from neglm_cli.text.word_index import WordIndex

PREFIX = 8  # letters by which most words differ


def find(alphabet: WordIndex, word: bytes) -> int:
    """The id of a word, -1 if it is not among them.

    Looks at all words, which for a few takes less time than making, or even loading, what `WordIndex.id` needs.
    """
    starts = alphabet.offsets[:-1]
    ids = np.flatnonzero(np.diff(alphabet.offsets) == len(word))
    for place, letter in enumerate(word[:PREFIX]):
        ids = ids[alphabet.words[starts[ids] + place] == letter]
    return next((id_ for id_ in ids.tolist() if alphabet[id_] == word), -1)


def lower(word: bytes) -> bytes:
    """A word in lower case; of one that is not UTF-8 only the ASCII letters."""
    try:
        return word.decode().lower().encode()
    except UnicodeDecodeError:
        return word.lower()
