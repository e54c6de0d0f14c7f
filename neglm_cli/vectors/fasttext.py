"""fastText's models, .bin and quantized .ftz: settings, words with counts, and an input and an output matrix.

    int32 magic, version; int32 × 12, float64          settings, see SETTINGS
    int32 entries, words, labels; int64 tokens, pruned
    entries × (text up to a zero byte, int64 count, int8 type)
    pruned × (int32 bucket, int32 row)                 buckets that a quantized model keeps; -1 for all of them
    bool quantized, matrix of inputs                   words, then buckets
    bool quantized, matrix of outputs                  words, or labels

A matrix is int64 rows, columns and float32 values; see `_Reader.quantized` for the other kind. All little-endian.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from neglm_cli.errors import NeglmError
from neglm_cli.store.wording import FASTTEXT_MAGIC
from neglm_cli.store.wordlists import MAX_TOTAL, exact_sum
from neglm_cli.text.word_index import WordIndex
from neglm_cli.vectors.reading import MAX_SIZE, InputBuffer, Table, displayed, validate
from neglm_cli.vectors.subwords import Subwords
from neglm_cli.vectors.vectors import NO_CONTEXTS, Vectors

MAGIC = int.from_bytes(FASTTEXT_MAGIC, "little")
VERSIONS = (11, 12)
SETTINGS = (
    "dim", "ws", "epoch", "min_count", "neg", "word_ngrams", "loss", "model", "bucket", "minn", "maxn", "update_rate",
)  # fmt: skip
NEGATIVE_SAMPLING, CBOW, SKIP_GRAM, SUPERVISED = 2, 1, 2, 3  # values of `loss` and `model`
WORD = 0  # type of an entry
UNPRUNED = -1
CENTROIDS = 256  # of a quantizer
BLOCK_VALUES = 1 << 20  # float32 values read or written at a time
LONGEST = 99  # n-gram that neglm reads
FORBIDDEN = b"\0"  # in words


class _Reader:
    """Reads numbers and matrices. Memory follows what was read, since sizes in a file may be wrong."""

    def __init__(self, source: InputBuffer) -> None:
        self._source = source
        self.name = source.name

    def fail(self, problem: str) -> NeglmError:
        return NeglmError(f"{self.name} is a damaged fastText model: {problem}; get it again")

    def numbers(self, format: str) -> tuple[Any, ...]:
        size = struct.calcsize("<" + format)
        while self._source.end - self._source.begin < size:
            self._more()
        found = struct.unpack_from("<" + format, self._source.text, self._source.begin)
        self._source.begin += size
        return found

    def word(self) -> bytes:
        source, searched = self._source, 0
        while (end := source.text.find(b"\0", source.begin + searched, source.end)) < 0:
            searched = source.end - source.begin
            self._more()
        word = bytes(source.text[source.begin : end])
        source.begin = end + 1
        return word

    def values(self, count: int, dtype: str) -> np.ndarray:
        """Read an array. It grows as it is read."""
        found = np.empty(min(count, BLOCK_VALUES), dtype)
        filled = 0
        while filled < count:
            if filled == len(found):
                found.resize(min(count, len(found) * 2), refcheck=False)
            filled += self._copy(found[filled:])
        return found

    def _copy(self, wanted: np.ndarray) -> int:
        """Copy as many values as are in the buffer. Return their number."""
        source, size = self._source, wanted.itemsize
        while source.end - source.begin < size:
            self._more()
        count = min((source.end - source.begin) // size, len(wanted))
        wanted[:count] = np.frombuffer(source.text, wanted.dtype, count, source.begin)
        source.begin += count * size
        return count

    def matrix(self, columns: int) -> np.ndarray:
        """Read a matrix: float32 (rows, columns)."""
        rows, found = self.numbers("qq")
        if found != columns or not 0 <= rows < 2**40:
            raise self.fail(f"a matrix of {rows:,} × {found:,} with vectors of size {columns:,}")
        return self.values(rows * columns, "<f4").reshape(rows, columns)

    def quantized(self, columns: int) -> np.ndarray:
        """Read a product-quantized matrix: float32 (rows, columns).

        Each row is codes of centroids, one for each part of the columns, and perhaps a code of its norm."""
        (with_norms,), (rows, found) = self.numbers("?"), self.numbers("qq")
        (size,) = self.numbers("i")
        if found != columns or not 0 <= rows < 2**40 or not 0 <= size < 2**31:
            raise self.fail(f"a matrix of {rows:,} × {found:,} with vectors of size {columns:,}")
        codes = self.values(size, "u1")
        matrix = self._decode(codes, rows, columns)
        if with_norms:
            matrix *= self._decode(self.values(rows, "u1"), rows, 1)
        return matrix

    def _decode(self, codes: np.ndarray, rows: int, columns: int) -> np.ndarray:
        """Read the centroids of a quantizer and look up codes: float32 (rows, columns)."""
        size, parts, width, last_width = self.numbers("4i")
        consistent = size == columns and parts > 0 and width > 0 and (parts - 1) * width + last_width == columns
        if not consistent or not 0 < last_width <= width or len(codes) != rows * parts:
            raise self.fail("its quantizer does not fit its matrix")
        centroids, codes = self.values(size * CENTROIDS, "<f4"), codes.reshape(rows, parts)
        matrix = np.empty((rows, columns), np.float32)
        for part in range(parts):
            columns_here = width if part < parts - 1 else last_width
            first = part * width
            table = centroids[first * CENTROIDS : (first + columns_here) * CENTROIDS].reshape(CENTROIDS, columns_here)
            matrix[:, first : first + columns_here] = table[codes[:, part]]
        return matrix

    def expect_end(self) -> None:
        if self._source.begin < self._source.end or self._source.more():
            raise self.fail("it has bytes after its end")

    def _more(self) -> None:
        if not self._source.more():
            raise NeglmError(f"{self.name} is cut short: it is not a whole fastText model; get it again")


class _Dictionary(NamedTuple):
    words: list[bytes]
    counts: np.ndarray
    pruned: int  # buckets that are kept; UNPRUNED if all are


def read_model(source: InputBuffer) -> Vectors:
    """Read the words and vectors of a model, and its subwords if it has any. The output vectors of models with negative
    sampling become contexts."""
    reader = _Reader(source)
    _, version = reader.numbers("ii")
    if version not in VERSIONS:
        raise NeglmError(
            f"{reader.name} is a fastText model of version {version}, and neglm reads versions "
            f"{' and '.join(map(str, VERSIONS))}: convert it with another fastText"
        )
    settings: Mapping[str, int] = dict(zip(SETTINGS, reader.numbers("12i"), strict=True))
    reader.numbers("d")  # the threshold of subsampling
    size, buckets = settings["dim"], settings["bucket"]
    if not 0 < size <= MAX_SIZE or buckets < 0:
        raise reader.fail(f"it says vectors of size {size:,} and {buckets:,} buckets")
    dictionary = _dictionary(reader)
    counts = np.maximum(dictionary.counts, 1)
    if exact_sum(counts) > MAX_TOTAL:
        raise reader.fail(f"the counts of its words add up to {exact_sum(counts):,}")
    words = WordIndex.of(dictionary.words, counts)
    (quantized,) = reader.numbers("?")
    inputs = reader.quantized(size) if quantized else reader.matrix(size)
    kept = buckets if dictionary.pruned == UNPRUNED else dictionary.pruned
    if len(inputs) != len(words) + kept or (dictionary.pruned != UNPRUNED and not quantized):
        raise reader.fail(f"{len(inputs):,} vectors for {len(words):,} words and {kept:,} buckets of n-grams")
    (also,) = reader.numbers("?")
    outputs = reader.quantized(size) if quantized and also else reader.matrix(size)
    reader.expect_end()
    validate(Table(dictionary.words, inputs[: len(words)]), reader.name, lambda row: f"word {row + 1}")
    found = _vectors(reader, words, inputs, _lengths(reader, settings, version, dictionary))
    if settings["model"] == SUPERVISED or settings["loss"] != NEGATIVE_SAMPLING or len(outputs) != len(words):
        return found
    return Vectors(**vars(found) | {"contexts": words, "context_vectors": outputs})


def _dictionary(reader: _Reader) -> _Dictionary:
    entries, count, labels, _, pruned = reader.numbers("iiiqq")
    if entries != count + labels or count < 0 or labels < 0 or not UNPRUNED <= pruned < 2**31:
        raise reader.fail(f"{entries:,} entries for {count:,} words and {labels:,} labels")
    words, counts = [], []
    for number in range(entries):
        word, (occurrences, kind) = reader.word(), reader.numbers("qb")
        if (kind == WORD) != (number < count) or not word:
            raise reader.fail(f"entry {number + 1:,}, {displayed(word)}, is empty or out of order")
        if kind == WORD:
            words.append(word)
            counts.append(occurrences)
    reader.values(2 * max(pruned, 0), "<i4")
    return _Dictionary(words, np.array(counts, np.int64), pruned)


def _lengths(reader: _Reader, settings: Mapping[str, int], version: int, dictionary: _Dictionary) -> str | None:
    """Return the lengths of n-grams, or None if the words of the model have none."""
    minn, maxn = max(settings["minn"], 1), settings["maxn"]
    old_supervised = version < VERSIONS[-1] and settings["model"] == SUPERVISED  # they had no n-grams of characters
    if maxn < minn or settings["bucket"] == 0 or dictionary.pruned == 0 or old_supervised:
        return None
    if dictionary.pruned != UNPRUNED:
        raise NeglmError(
            f"{reader.name} is a quantized fastText model without some of its n-grams, which neglm does not read: "
            "import the .bin that it was made from"
        )
    if maxn > LONGEST:
        raise NeglmError(f"{reader.name} has n-grams of up to {maxn:,} characters, and neglm reads up to {LONGEST}")
    return f"{minn}-{maxn}"


def _vectors(reader: _Reader, words: WordIndex, inputs: np.ndarray, lengths: str | None) -> Vectors:
    rows, no_contexts = inputs[: len(words)], np.empty((0, inputs.shape[1]), np.float32)
    if lengths is None:
        return Vectors(words, rows, NO_CONTEXTS, no_contexts)
    subwords = Subwords(lengths, rows, inputs[len(words) :])
    if not np.isfinite(subwords.ngrams).all():
        raise reader.fail("its n-grams contain NaN or infinite values")
    return Vectors(words, subwords.known(words), NO_CONTEXTS, no_contexts, subwords=subwords)


def write_model(file: BinaryIO, vectors: Vectors, advance: Callable[[int], None]) -> None:
    """Write a skip-gram or CBOW model. Words that are no contexts get output vectors of zeros."""
    words, subwords, arguments = vectors.words, vectors.subwords, vectors.arguments
    if subwords is not None and len(subwords.words) != len(words):
        raise NeglmError("quantized vectors lack the rows of words that fastText's models have: export the original")
    minn, maxn = map(int, subwords.lengths.split("-")) if subwords else (0, 0)
    settings = {
        "dim": vectors.size, "ws": arguments.get("window", 5), "epoch": arguments.get("epochs", 5),
        "min_count": arguments.get("min_count", 1), "neg": vectors.k or 5, "word_ngrams": 1, "loss": NEGATIVE_SAMPLING,
        "model": CBOW if arguments.get("cbow") else SKIP_GRAM,
        "bucket": len(subwords.ngrams) if subwords else 0, "minn": minn, "maxn": maxn,
        "update_rate": 100,
    }  # fmt: skip
    file.write(struct.pack("<ii", MAGIC, VERSIONS[-1]))
    file.write(struct.pack("<12id", *(settings[name] for name in SETTINGS), arguments.get("sample", 1e-4)))
    file.write(struct.pack("<iiiqq", len(words), len(words), 0, int(words.counts.sum()), UNPRUNED))
    for word, count in zip(words, words.counts.tolist(), strict=True):
        file.write(word + struct.pack("<bqb", 0, count, WORD))
    inputs = [subwords.words, subwords.ngrams] if subwords else [vectors.vectors]
    _write_matrix(file, inputs, advance)
    _write_matrix(file, [_outputs(vectors)], advance)


def _outputs(vectors: Vectors) -> np.ndarray:
    """Return the context vectors in the order of words: float32 (V, D)."""
    outputs = np.zeros((len(vectors.words), vectors.size), np.float32)
    if len(vectors.contexts):
        ids = vectors.contexts.ids(vectors.words)
        outputs[ids >= 0] = vectors.context_vectors[ids[ids >= 0]]
    return outputs


def _write_matrix(file: BinaryIO, parts: list[np.ndarray], advance: Callable[[int], None]) -> None:
    size = parts[0].shape[1]
    file.write(struct.pack("<?qq", False, sum(map(len, parts)), size))
    step = max(1, BLOCK_VALUES // size)
    for part in parts:
        for start in range(0, len(part), step):
            block = part[start : start + step]
            file.write(block.astype("<f4").tobytes())
            advance(len(block))
