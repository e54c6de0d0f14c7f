"""`neglm export --quantize`: vectors in one byte for every few dimensions."""

import os
from typing import TYPE_CHECKING, Any

from neglm_cli.cli.console import console
from neglm_cli.cli.progress import Progress
from neglm_cli.cli.scores import rounded
from neglm_cli.errors import NeglmError, count_of, shown
from neglm_cli.store.output import STANDARD_OUTPUT, STANDARD_STREAM

if TYPE_CHECKING:
    from neglm_cli.vectors.similarity import RatedPairs
    from neglm_cli.vectors.vectors import Vectors

DSUB = 2  # dimensions of a byte, as in fastText


def export_quantized(path: str, output: str, table: str | None, max_vocab: int | None, dsub: int) -> "Quantized":
    """Write quantized vectors. Return them, with the original ones."""
    from neglm_cli.vectors.exchange import subset
    from neglm_cli.vectors.quantization import QuantizedMatrix
    from neglm_cli.vectors.quantized import quantized_copy
    from neglm_cli.vectors.vectors import load_vectors, write_quantized

    loaded = load_vectors(path, table)
    if isinstance(loaded.vectors, QuantizedMatrix):
        name = "standard input" if path == STANDARD_STREAM else shown(path)
        raise NeglmError(f"{name} is quantized already: leave out --quantize, or quantize the original")
    loaded = subset(loaded, max_vocab)
    rows = len(loaded.words) + (len(loaded.subwords.ngrams) if loaded.subwords else 0)
    with Progress("quantizing vectors", rows, "K rows") as progress:
        copy = quantized_copy(loaded, dsub, progress.advance)
    write_quantized(output, copy, dsub)
    return Quantized(output, loaded, copy)


class Quantized:
    """Vectors and their quantized copy."""

    def __init__(self, output: str, vectors: "Vectors", copy: "Vectors") -> None:
        self._output, self._vectors, self._copy = output, vectors, copy

    def report(self, sets: list[tuple[str, "RatedPairs"]], json: bool) -> None:
        """Print sizes and losses. sets: pairs of words with ratings, by file."""
        from neglm_cli.vectors.quantized import loss_of

        loss = loss_of(self._vectors, self._copy)
        summary = {
            "output": self._output,
            "format": "quantized",
            "vocabulary": len(self._copy.words),
            "dimensions": self._copy.size,
            "buckets": len(self._copy.subwords.ngrams) if self._copy.subwords else 0,
            "bytes": _bytes(self._copy),
            "bytes_before": _bytes(self._vectors),
            "squared_error": rounded(loss.squared_error),
            "neighbors_kept": rounded(loss.neighbors_kept),
            "similarity": [
                {"file": file, "spearman": _spearman(self._copy, pairs), "before": _spearman(self._vectors, pairs)}
                for file, pairs in sets
            ],
        }
        console.summary(summary, _as_text(summary), self._output, json)


def _bytes(vectors: "Vectors") -> int:
    """Return the size of what both copies have: vectors of words, and rows of n-grams."""
    from neglm_cli.vectors.quantization import QuantizedMatrix

    total = 0
    for matrix in (vectors.vectors, *([vectors.subwords.ngrams] if vectors.subwords else [])):
        parts = [matrix.centroids, matrix.codes, matrix.scales] if isinstance(matrix, QuantizedMatrix) else [matrix]
        total += sum(part.nbytes for part in parts)
    return total


def _spearman(vectors: "Vectors", pairs: "RatedPairs") -> float | None:
    from neglm_cli.vectors.lexicon import Lexicon
    from neglm_cli.vectors.lookup import Lookup
    from neglm_cli.vectors.neighbors import CosineIndex
    from neglm_cli.vectors.similarity import correlations

    lexicon = Lexicon(vectors.words, None, fold_case=True)
    return rounded(correlations(pairs, lexicon, CosineIndex.of(vectors.vectors, ""), Lookup(vectors)).spearman)


def _as_text(summary: dict[str, Any]) -> str:
    name = "the vectors" if summary["output"] in STANDARD_OUTPUT else shown(summary["output"])
    size = f"{count_of(summary['vocabulary'], 'word')}, {count_of(summary['dimensions'], 'dimension')}"
    lines = [
        f"{name}: {size}, quantized: {summary['bytes'] / 1e6:,.1f} MB instead of {summary['bytes_before'] / 1e6:,.1f}",
        f"  squared error {summary['squared_error']:.2%}; of the ten nearest neighbors of words, "
        f"{summary['neighbors_kept']:.1%} are the same",
    ]
    for row in summary["similarity"]:
        before, after = (f"{value:.4f}" if value is not None else "–" for value in (row["before"], row["spearman"]))
        lines.append(f"  {os.path.basename(row['file'])}: Spearman {after}, before {before}")
    return "\n".join(lines)
