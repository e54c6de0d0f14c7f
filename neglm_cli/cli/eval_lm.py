"""`neglm eval --test`: the perplexity of texts under a language model."""

import math
from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Any

from neglm_cli.cli.console import console
from neglm_cli.cli.mixing import is_mixed, open_mixed, report, report_text, save_adapted
from neglm_cli.cli.options import find_gpu, thread_count
from neglm_cli.cli.progress import Progress, amount, bytes_to_read
from neglm_cli.cli.reading import load_model
from neglm_cli.cli.scores import DIGITS, rounded
from neglm_cli.errors import NeglmError, count_of, shown
from neglm_cli.runs.corpora import SAME_FILES, check_texts
from neglm_cli.scale.agreement import check_same
from neglm_cli.scale.launch import ranks
from neglm_cli.scale.ranks import SINGLE_RANK, Ranks
from neglm_cli.store.output import STANDARD_STREAM

if TYPE_CHECKING:
    from neglm_cli.lm.device import Device
    from neglm_cli.lm.mixing import MixedModel
    from neglm_cli.lm.model import LanguageModel
    from neglm_cli.lm.scoring import Line, Tally


def evaluate_texts(
    path: str, tests: list[str], per_line: bool, threads: int | None, json: bool, device_name: str,
    given: dict[str, Any],
) -> None:  # fmt: skip
    """given: the options of `settings.mixing`."""
    from neglm_cli.lm.devices import scoring_device
    from neglm_cli.text.corpus import open_corpus

    for test in tests:
        check_texts(open_corpus([test]))  # errors in them come before the long work
    gpu = find_gpu(device_name)
    model = load_model(path)
    job = ranks()
    check_same(job, "model", model.checksum, SAME_FILES)
    device: Device | MixedModel
    if is_mixed(given):
        device = open_mixed(model, given, thread_count(threads), gpu)
    else:
        device = scoring_device(model, thread_count(threads), gpu, console.note, job)
    try:
        results = _results(model, device, tests, per_line, thread_count(threads), json, job, given)
    finally:
        device.close()
    if per_line:
        return
    if json:
        sets = {"test": results, "similarity": [], "analogy": [], "minimal_pairs": []}
        console.json({"model": path, "vocabulary": len(model.words)} | sets)
    else:
        console.result("\n\n".join(_as_text(result, model) for result in results))


def _results(
    model: "LanguageModel", device: "Device | MixedModel", tests: list[str], per_line: bool, threads: int, json: bool,
    ranks: Ranks, given: dict[str, Any],
) -> list[dict[str, Any]]:  # fmt: skip
    """Evaluate the texts. Ranks divide them or, if there are fewer texts than ranks, each text (unless it is read in
    order, as a model that adapts does)."""
    size, rank = ranks.size, ranks.rank
    if size == 1:
        shows = [_line_printer(test, json) if per_line else None for test in tests]
        return [
            _evaluate(model, device, test, threads, SINGLE_RANK, show, given)
            for test, show in zip(tests, shows, strict=True)
        ]
    lines: dict[int, list[Line]] = {number: [] for number in range(len(tests))}
    divided = len(tests) < size and not is_mixed(given)
    found = {
        number: _evaluate(
            model, device, tests[number], threads, ranks if divided else SINGLE_RANK,
            lines[number].append if per_line else None, given,
        )
        for number in (range(len(tests)) if divided else range(rank, len(tests), size))
    }  # fmt: skip
    everyone = ranks.allgather(found)
    for number, test in enumerate(tests) if per_line else ():
        show = _line_printer(test, json)
        for line in chain.from_iterable(ranks.allgather(lines[number])):
            show(line)
    return [next(part[number] for part in everyone if number in part) for number in range(len(tests))]


def _evaluate(
    model: "LanguageModel", device: "Device | MixedModel", test: str, threads: int, ranks: Ranks,
    take_line: "Callable[[Line], None] | None", given: dict[str, Any],
) -> dict[str, Any]:  # fmt: skip
    from neglm_cli.lm.mixing import MixedModel, MixedScorer
    from neglm_cli.lm.scoring import CHUNK, Reader, Segment, SkippingReader, Tally, segment_bounds
    from neglm_cli.text.corpus import open_corpus
    from neglm_cli.text.encode import Encoder

    corpus = open_corpus([test])
    encoder = Encoder(model.words, unknown=len(model.words))  # tells <unk> in the text from OOV words
    scorer = device.scorer(CHUNK)
    words_of_model = model.words.counts, model.unknown, model.end_of_line
    reader = Reader(scorer, *words_of_model)
    text_bytes = 0
    segment = None
    if ranks.size > 1:
        words = sum(len(ids) for _, ids in encoder.encode_corpus(corpus, threads))
        starts = segment_bounds(words, model.shape, ranks.size)
        whole_lines = None if take_line is None else model.end_of_line
        first, last = starts[ranks.rank], starts[ranks.rank + 1]
        assert not isinstance(scorer, MixedScorer)  # its texts are not divided
        reader = SkippingReader(scorer, *words_of_model)
        segment = Segment(reader, first, last, whole_lines)
    with Progress("evaluating", bytes_to_read([test]), unit="") as progress:
        words = 0
        for block, ids in encoder.encode_corpus(corpus, threads):
            text_bytes += block.length
            for first in range(0, len(ids), CHUNK):
                piece = ids[first : first + CHUNK]
                if segment is None:
                    reader.read(piece, take_line)
                elif not segment.ended:
                    segment.read(piece, take_line)
                words += len(piece)
                before, after = (block.read * at // len(ids) for at in (first, first + len(piece)))
                rate = words / max(progress.seconds, 1e-9)
                progress.advance(after - before, f"{amount(words, 'K words')}, {amount(rate, 'K words')}/s")
        seconds = progress.seconds
    tally = sum(ranks.allgather(reader.tally), Tally())
    if not tally.tokens:
        raise NeglmError(f"{corpus.name} has no words: name a text with words in it")
    if tally.words and tally.oov == tally.words:
        console.note(f"all words of {corpus.name} are out of the vocabulary of {model.name}")
    if corpus.sources[0].plain:
        text_bytes = corpus.sources[0].size  # excludes a newline added at the end
    if isinstance(scorer, MixedScorer) and "save_adapted" in given:
        save_adapted(given["save_adapted"], model, scorer)
    test_time = None
    if isinstance(device, MixedModel) and isinstance(scorer, MixedScorer):
        test_time = report(device, given, scorer)
    return _figures(tally, text_bytes) | {
        "file": test,
        "test_time": test_time,
        "seconds": round(seconds, 3),
        "words_per_second": round(tally.tokens / max(seconds, 1e-9)),
    }


def _figures(tally: "Tally", text_bytes: int) -> dict[str, Any]:
    figures: dict[str, float] = {
        "perplexity": tally.perplexity,
        "perplexity_without_oov": tally.perplexity_without_oov,
        "unnormalized_perplexity": tally.unnormalized_perplexity,
        "unigram_perplexity": tally.unigram_perplexity,
        "log_z_mean": tally.log_z_mean,
        "log_z_std": tally.log_z_std,
        "log10_probability": tally.log_probability / math.log(10),
        "bits_per_word": -tally.log_probability / math.log(2) / tally.tokens,
        "bits_per_byte": -tally.log_probability / math.log(2) / max(text_bytes, 1),
    }
    counts = {"tokens": tally.words, "lines": tally.lines, "oov": tally.oov, "bytes": text_bytes}
    return {name: rounded(value) for name, value in figures.items()} | counts


def _line_printer(test: str, json: bool) -> Any:
    def show(line: "Line") -> None:
        perplexity = math.exp(min(-line.log_probability / (line.words + 1), 700))
        log10 = line.log_probability / math.log(10)
        if json:
            found = {"tokens": line.words, "oov": line.oov, "log10_probability": round(log10, DIGITS)}
            console.json_line({"file": test, **found, "perplexity": round(perplexity, DIGITS)})
        else:
            console.result(f"{log10:.{DIGITS}f}\t{perplexity:.4f}\t{line.words}\t{line.oov}")

    return show


def _as_text(result: dict[str, Any], model: "LanguageModel") -> str:
    name = "standard input" if result["file"] == STANDARD_STREAM else shown(result["file"])
    share = result["oov"] / max(result["tokens"], 1)
    rows = [
        ("perplexity", f"{_number(result['perplexity'])}, OOV words as <unk>"),
        ("without OOV", _number(result["perplexity_without_oov"])),
        ("unigram model", _number(result["unigram_perplexity"])),
        *(report_text(result["test_time"]) if result["test_time"] else ()),
        *([("unnormalized", f"{_number(result['unnormalized_perplexity'])}, log Z {result['log_z_mean']:.4f} ± "
         f"{result['log_z_std']:.4f}")] if result["log_z_mean"] is not None else ()),
        ("bits", f"{result['bits_per_word']:.4f} per word, {result['bits_per_byte']:.4f} per byte"),
        ("tokens", f"{result['tokens']:,}, and {result['lines']:,} ends of line"),
        ("OOV", f"{count_of(result['oov'], 'token')} ({share:.2%})"),
        ("vocabulary", f"{len(model.words):,} words: compare perplexities only for the same vocabulary"),
    ]  # fmt: skip
    head = f"{name}, predicted by {model.name} ({model.settings.loss}, {result['words_per_second']:,} words/s)"
    return "\n".join([head, *(f"  {label:<16}{value}" for label, value in rows)])


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.3f}"
