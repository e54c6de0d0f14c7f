"""The two passes of `neglm filter`: the first scores all records, the second writes those that are kept."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neglm_cli.cli.console import console
from neglm_cli.cli.options import line_preparation, thread_count
from neglm_cli.cli.progress import Progress, amount
from neglm_cli.cli.reading import Opened
from neglm_cli.errors import NeglmError, count_of, shown
from neglm_cli.runs.corpora import SAME_FILES, check_texts
from neglm_cli.scale.agreement import check_same, on_rank0
from neglm_cli.scale.launch import ranks
from neglm_cli.store.output import is_regular_output, writing

if TYPE_CHECKING:
    import numpy as np

    from neglm_cli.lm.filter_scores import PartialScores
    from neglm_cli.lm.filtering import Judge, Keep, RecordScorer
    from neglm_cli.text.corpus import Corpus
    from neglm_cli.text.records import Format, Record
    from neglm_cli.text.source import Source
    from neglm_cli.text.streams import Advance


@dataclass(frozen=True)
class FilterRequest:
    """The options of a run."""

    form: "Format"
    keep: "Keep"
    max_oov: float | None
    output: str
    bare: bool  # write records as they are
    tokenize: bool
    unnormalized: bool
    skip_bad: bool
    resume: bool


class FilterRun:
    """One run, of one or more ranks: each scores some batches, rank 0 writes."""

    def __init__(self, request: FilterRequest, corpus: "Corpus", opened: Opened, other: Opened | None) -> None:
        self._request = request
        self._corpus = corpus
        self._other = other is not None
        self._job = ranks()
        check_texts(corpus)
        self._models = [None if each is None else each.model.checksum for each in (opened, other)]
        check_same(self._job, "models", self._models, SAME_FILES)
        self._scorer = self._record_scorer(opened, other)
        self._partial = self._open_partial()
        self._seconds = 0.0
        self._scored_tokens = 0

    def run(self) -> dict[str, Any]:
        """Run both passes. Return the summary."""
        try:
            self._score()
            scores = self._gathered()
            chosen = self._chosen(scores)
            on_rank0(self._job, lambda: self._write(scores, chosen))
        except BaseException as error:
            self._partial.close()
            if not self._partial.resumed and not self._partial.records:
                self._partial.remove()
            elif isinstance(error, NeglmError) and self._partial.path and (kept := self._partial.records):
                console.note(f"{shown(self._partial.path)} keeps {count_of(kept, 'score')} for --resume")
            raise
        self._partial.remove()
        return self._summary(scores, int(chosen.sum()))

    # --- the first pass -------------------------------------------------------------------------------

    def _score(self) -> None:
        from neglm_cli.lm.filtering import BAD

        with Progress("scoring", self._corpus.size) as progress:

            def advance(count: int) -> None:
                rate = self._scored_tokens / max(progress.seconds, 1e-9)
                progress.advance(count, f"{amount(rate, 'K words')}/s" if self._scored_tokens else "")

            for number, (source, batch) in enumerate(self._batches(advance)):
                if number % self._job.size == self._job.rank:
                    scores = self._partial.take(len(batch))
                    if scores is None or (BAD in scores["tokens"] and not self._request.skip_bad):
                        scores = self._scored(source, batch)
                    self._partial.append(scores)
            self._seconds = progress.seconds

    def _batches(self, advance: "Advance") -> "Iterator[tuple[Source, list[Record]]]":
        from neglm_cli.text.records import batched, read_records

        for source in self._corpus.sources:
            for batch in batched(read_records(source, self._request.form, advance)):
                yield source, batch

    def _scored(self, source: "Source", batch: "list[Record]") -> "np.ndarray":
        from neglm_cli.text.records import BadRecordError, bad_record

        texts: list[bytes | None] = []
        for record in batch:
            try:
                texts.append(self._request.form.text(record.line))
            except BadRecordError as reason:
                if not self._request.skip_bad:
                    raise bad_record(source, record, reason) from None
                texts.append(None)
        scores = self._scorer.score(texts)
        self._scored_tokens += int((scores["tokens"].clip(0) + scores["lines"]).sum())
        return scores

    def _gathered(self) -> "np.ndarray":
        """Return the scores of all records in order: batch i was scored by rank i modulo the number of ranks."""
        import numpy as np

        from neglm_cli.lm.filtering import SCORE

        parts = self._job.allgather(self._partial.batches())
        total = sum(map(len, parts))
        in_order = [parts[i % self._job.size][i // self._job.size] for i in range(total)]
        return np.concatenate(in_order) if in_order else np.zeros(0, SCORE)

    # --- the second pass ------------------------------------------------------------------------------

    def _chosen(self, scores: "np.ndarray") -> "np.ndarray":
        from neglm_cli.lm.filtering import BAD, contrasts, oov_shares, perplexities

        values = contrasts(scores) if self._other else perplexities(scores)
        good = scores["tokens"] != BAD
        if self._request.max_oov is not None:
            good &= oov_shares(scores) <= self._request.max_oov
        return self._request.keep.choose(values, good)

    def _write(self, scores: "np.ndarray", chosen: "np.ndarray") -> None:
        from neglm_cli.lm.filtering import added_values
        from neglm_cli.store.compressed import compressing

        form, output, first = self._request.form, self._request.output, 0
        with (
            Progress("writing", self._corpus.size) as progress,
            writing(output, binary=False) as file,
            compressing(file, output) as records,
        ):
            for source, batch in self._batches(progress.advance):
                part = slice(first, first + len(batch))
                if part.stop > len(scores):
                    raise NeglmError(f"{source.name} has changed while it was read: filter it again")
                values = added_values(scores[part], self._other)
                for record, value, kept in zip(batch, values, chosen[part].tolist(), strict=True):
                    if kept:
                        line = record.line if self._request.bare else form.with_values(record.line, value)
                        records.write(line + b"\n")
                first = part.stop
            if first < len(scores):
                raise NeglmError(f"{self._corpus.name} has changed while it was read: filter it again")

    # --- its models, and its scores on disk -----------------------------------------------------------

    def _record_scorer(self, opened: Opened, other: Opened | None) -> "RecordScorer":
        from neglm_cli.lm.filtering import RecordScorer

        judges = [None if each is None else self._judge(each) for each in (opened, other)]
        assert judges[0] is not None
        return RecordScorer(judges[0], judges[1], line_preparation(self._request.tokenize))

    def _judge(self, opened: Opened) -> "Judge":
        from neglm_cli.lm.filtering import Judge
        from neglm_cli.lm.lines import LineEncoder, LineScorer

        scorer = LineScorer(opened.scorer, opened.model.end_of_line, not self._request.unnormalized)
        return Judge(LineEncoder(opened.model.words), scorer)

    def _key(self) -> dict[str, Any]:
        """Identify the scores: runs with the same key have the same ones."""
        from neglm_cli.text.provenance import fingerprint

        return {
            "models": self._models,
            "files": [fingerprint(source, thread_count(None)) for source in self._corpus.sources],
            "field": self._request.form.field,
            "tokenize": self._request.tokenize,
            "unnormalized": self._request.unnormalized,
            "rank": self._job.rank,
            "ranks": self._job.size,
        }

    def _open_partial(self) -> "PartialScores":
        from neglm_cli.lm.filter_scores import PartialScores

        output = self._request.output
        if not is_regular_output(output):
            return PartialScores(None, {}, resume=False)
        path = f"{output}.partial" + (f".{self._job.rank}" if self._job.size > 1 else "")
        if os.path.exists(path) and not self._request.resume:
            console.note(f"{shown(path)}, of a run that was stopped, is replaced; --resume would continue it")
        partial = PartialScores(path, self._key(), self._request.resume)
        if partial.resumed:
            console.note(f"{partial.resumed:,} records have been scored before")
        return partial

    def _summary(self, scores: "np.ndarray", kept: int) -> dict[str, Any]:
        from neglm_cli.lm.filtering import BAD

        good = scores[scores["tokens"] != BAD]
        return {
            "output": self._request.output,
            "records": len(good),
            "kept_records": kept,
            "bad": len(scores) - len(good),
            "tokens": int(good["tokens"].sum()),
            "oov": int(good["oov"].sum()),
            "seconds": round(self._seconds, 3),
            "words_per_second": round(sum(self._job.allgather(self._scored_tokens)) / max(self._seconds, 1e-9)),
        }
