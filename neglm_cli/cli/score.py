"""`neglm score`: log-probabilities of lines."""

import math
import sys
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from neglm_cli.cli.app import subcommand
from neglm_cli.cli.console import console
from neglm_cli.cli.mixed_scoring import open_lines
from neglm_cli.cli.mixing import check_options
from neglm_cli.cli.options import (
    DEFAULT_MODEL,
    MODEL,
    OUTPUT,
    Debug,
    DeviceName,
    Json,
    ModelFile,
    Quiet,
    Texts,
    Threads,
    Tokenize,
    Unnormalized,
    line_preparation,
    one_blas_thread,
)
from neglm_cli.cli.progress import Progress, bytes_to_read
from neglm_cli.cli.queries import as_text
from neglm_cli.cli.reading import Opened, model_and_texts
from neglm_cli.cli.surprisal import SurprisalTable, Table
from neglm_cli.runs.standard_input import refuse_repeated_stdin
from neglm_cli.settings.mixing import MixingSettings
from neglm_cli.store.terminal import standard_output

if TYPE_CHECKING:
    import numpy as np

    from neglm_cli.lm.lines import LineScorer
    from neglm_cli.lm.mixed_lines import InterpolatedLines, OrderedLines
    from neglm_cli.lm.nbest import Hypothesis

    Lines = LineScorer | OrderedLines | InterpolatedLines

DIGITS = 6


@subcommand(
    "score",
    ("neglm score < sentences.txt", "The log10 probability of each line, its tokens, and how many are OOV."),
    ("neglm score sentences.txt", "The same, from a file."),
    ("neglm score model.safetensors a.txt b.txt --per-word", "The log10 probability of each word."),
    ("neglm score -m model.safetensors a.txt b.txt", "The model as an option."),
    ("neglm score --nbest tab --weight 0.5 --best < nbest.txt", "Rescore n-best lists and print the best of each."),
    ("neglm score --unnormalized < sentences.txt", "Faster, and only approximately a probability."),
    ("neglm score --surprisal tsv --tokenize sentences.txt", "Surprisal and entropy of each word, in bits."),
    (
        "neglm score --carry --adapt 0.1 --save-adapted new.safetensors news.txt",
        "Learn from each line after its score.",
    ),
    settings=MixingSettings,
)
def score(
    given: dict[str, Any],
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="A language model. A single text file is scored with the default model.",
            show_default=DEFAULT_MODEL,
        ),
    ] = None,
    files: Texts = None,
    named: ModelFile = None,
    base: Annotated[
        Literal["10", "e"],
        typer.Option(help="Base of the logarithms.", metavar="10|e", rich_help_panel=OUTPUT),
    ] = "10",
    per_word: Annotated[
        bool,
        typer.Option(
            "--per-word",
            help="Print a line for each word and for the end of the line: word, id, log-probability, and 1 if it is "
            "OOV, otherwise 0; then an empty line.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    surprisal: Annotated[
        Literal["tsv", "csv", "json"] | None,
        typer.Option(
            help="Print a table of all words, for studies of reading times; see below.",
            show_default=False,
            metavar="tsv|csv|json",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    regions: Annotated[
        bool,
        typer.Option(
            "--regions",
            help="With --surprisal: tabs in a line separate regions. Each region has a row, with sums of its words.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    tokenize: Tokenize = False,
    carry: Annotated[
        bool,
        typer.Option(
            "--carry",
            help="Score a file as one text, carrying the state from line to line (unless the model was trained with "
            "--reset-at-eos).",
            rich_help_panel=MODEL,
        ),
    ] = False,
    unnormalized: Unnormalized = False,
    nbest: Annotated[
        Literal["tab", "kaldi", "moses"] | None,
        typer.Option(
            help="Rescore n-best lists. tab: id TAB text, or id TAB score TAB text; kaldi: id-number text, or "
            "id-number score text, where a score is a number with a sign, a decimal point or an exponent; moses: id "
            "||| text ||| features ||| score. Each list is printed in the same format, best first.",
            show_default=False,
            metavar="tab|kaldi|moses",
            rich_help_panel="N-best lists",
        ),
    ] = None,
    weight: Annotated[
        float,
        typer.Option(
            help="Multiply the model's log-probability by X before adding it to the score in the list.",
            metavar="X",
            rich_help_panel="N-best lists",
        ),
    ] = 1.0,
    best: Annotated[
        bool,
        typer.Option("--best", help="Print only the best of each list.", rich_help_panel="N-best lists"),
    ] = False,
    json: Json = False,
    device: DeviceName = "auto",
    threads: Threads = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Print the log-probability of each line of text under a language model.

    Each line gives a tab-separated line: log-probability, tokens, and out-of-vocabulary (OOV) tokens, which are read as
    <unk>. The log-probability includes the end of the line, the number of tokens does not. Without --carry, lines are
    independent: equal lines have equal scores. Results come in order, as soon as each line has been read.

    Models trained by negative sampling nearly normalize themselves (except those of --loss neg): with --unnormalized
    the time does not depend on the vocabulary. On one core, a model of PTB (2×300, 10,000 words) scored 39,000 words
    per second of CPU time that way, and 12,000 exactly. Log-probabilities of such a model (neglm-b, fully trained) were
    too low by 0.10 nats per word, with a standard deviation of 0.07 from line to line. `neglm eval` shows this for
    other models and texts: log Z, and the unnormalized perplexity.

    --surprisal prints the columns word, sentid, sentpos (both from 0 on), wlen (characters), surp (surprisal, -log2
    p), entropy (of the next word, before this one), entred (entropy reduction: the entropy before the word minus that
    after it, at least 0), freq (count in the training text) and oov. Columns are those of neural-complexity, and two
    more, but there entred is one row further down: the reduction by the word before. Surprisal and entropy are in
    bits, words are printed as they are in the text, and lines are independent unless --carry is given. Sentences are
    numbered across files; ends of line have no row. Words with quotation marks are quoted in both tables, tsv and csv,
    as readers of such files expect. Entropy takes the logits of all words: expect some 40 % of the speed without it.

    With --regions the columns are text, sentid, region (from 0 on, counting empty ones, which have no row), tokens,
    wlen, surp, entropy, entred, freq and oov: sums of the words' wlen, surp, entred and oov, the entropy before the
    first word, and the freq of the rarest.

    With --adapt and --cache, lines are scored in order, one after the other, and the model and the cache go on from
    line to line; without --carry, only the state of the network starts anew at each line. Each file starts from the
    trained model. `neglm eval --help` explains the mixture. --adapt with --unnormalized learns the same, and prints
    the adapted model's logits. --tune uses exact probabilities, and --interpolate works for n-best lists, too.
    """
    path, texts = model_and_texts(model, files or [], named, "score")
    refuse_repeated_stdin([path, *texts, *(given[name] for name in ("tune", "interpolate") if name in given)])
    check_options(given, [path, *texts], unnormalized, len(texts))
    if nbest and ("adapt" in given or "cache" in given):
        raise typer.BadParameter("--adapt and --cache read texts in order: they are not for n-best lists.")
    if surprisal and given:
        raise typer.BadParameter(f"--{next(iter(given)).replace('_', '-')} is not for --surprisal.")
    if nbest and (per_word or carry):
        raise typer.BadParameter("--per-word and --carry are not for n-best lists.")
    if nbest and tokenize:
        raise typer.BadParameter("--tokenize is not for n-best lists, which have tokens.")
    if surprisal and (nbest or unnormalized or base != "10"):
        raise typer.BadParameter("--surprisal is exact and in bits: --nbest, --unnormalized and --base are not for it.")
    if surprisal and per_word:
        raise typer.BadParameter("--per-word is not for --surprisal, which has a row for each word.")
    if regions and not surprisal:
        raise typer.BadParameter("--regions is for --surprisal.")
    if not nbest and (best or weight != 1.0):
        raise typer.BadParameter("--weight and --best are for --nbest.")
    if not math.isfinite(weight):
        raise typer.BadParameter("--weight must be a finite number.")
    one_blas_thread()
    console.announce_compiling()
    from neglm_cli.lm.mixed_lines import OrderedLines
    from neglm_cli.lm.nbest import read_lists
    from neglm_cli.text.source import open_source

    sources = [open_source(text) for text in texts]
    scoring = open_lines(path, device, threads, given, carry, not unnormalized)
    opened = scoring.opened
    console.announce_standard_input(texts)
    try:
        total = None if sys.stdout.isatty() else bytes_to_read(texts)  # at a terminal the scores show the progress
        with Progress("scoring", total) as progress:
            advance = _unseen if total is None else progress.advance
            prepare = line_preparation(tokenize)
            form: Table = "json" if json else surprisal or "tsv"
            table = SurprisalTable(opened, form, regions, carry, prepare) if surprisal else None
            for source in sources:
                scorer = scoring.start()
                scale = 1.0 if base == "e" else 1 / math.log(10)
                blocks = source.lines(advance)
                if nbest:
                    assert not isinstance(scorer, OrderedLines)  # refused above: alternative lines have no order
                    lists = read_lists(chain.from_iterable(blocks), nbest, source.name)
                    _rerank(opened, scorer, lists, nbest, weight, best, scale, json)
                elif table:
                    table.write_text(blocks)
                else:
                    prepared = ([prepare(line) for line in block] for block in blocks)
                    _score(opened, scorer, prepared, carry, scale, per_word, json)
        scoring.finish()
    finally:
        scoring.close()


def _score(
    opened: Opened, scorer: "Lines", blocks: Iterator[list[bytes]], carry: bool, scale: float, per_word: bool,
    json: bool,
) -> None:  # fmt: skip
    from neglm_cli.lm.lines import LineEncoder

    encoder = LineEncoder(opened.model.words)
    for texts in blocks:
        lines = encoder.encode(texts)
        scores = scale * (scorer.score_text(lines) if carry else scorer.score_lines(lines))
        found = list(
            map(Scored, lines.sums(scores).tolist(), (lines.sizes - 1).tolist(), lines.sums(lines.oov).tolist())
        )
        words = (
            [
                _each_word(*line)
                for line in zip(texts, *map(lines.split, (lines.tokens, scores, lines.oov)), strict=True)
            ]
            if per_word
            else []
        )
        if json:
            for i, line in enumerate(found):
                console.json_line(_as_json(line, _field(scale), words[i] if per_word else None))
        else:
            _write(b"\n".join(map(_by_word, words) if per_word else map(_line, found)))
        sys.stdout.flush()


class Scored(NamedTuple):
    """A line, with the sum of its scores."""

    score: float
    tokens: int
    oov: int


Word = tuple[bytes, int, float, bool]  # with its id, its score, and True if it is out of the vocabulary


def _each_word(text: bytes, ids: "np.ndarray", scores: "np.ndarray", oov: "np.ndarray") -> list[Word]:
    """Return the words of a line, and its end."""
    return list(zip([*text.split(), b"<eos>"], ids.tolist(), scores.tolist(), oov.tolist(), strict=True))


def _line(line: Scored) -> bytes:
    return b"%.*f\t%d\t%d" % (DIGITS, *line)


def _by_word(words: list[Word]) -> bytes:
    return b"".join(b"%b\t%d\t%.*f\t%d\n" % (word, id_, DIGITS, score, oov) for word, id_, score, oov in words)


def _as_json(line: Scored, name: str, words: list[Word] | None) -> dict[str, Any]:
    found: dict[str, Any] = {name: round(line.score, DIGITS), "tokens": line.tokens, "oov": line.oov}
    if words is not None:
        found["words"] = [
            {"word": as_text(word), "id": id_, name: round(score, DIGITS), "oov": int(oov)}
            for word, id_, score, oov in words
        ]
    return found


def _rerank(
    opened: Opened, scorer: "LineScorer | InterpolatedLines", lists: "Iterator[list[Hypothesis]]", form: str,
    weight: float, best: bool, scale: float, json: bool,
) -> None:  # fmt: skip
    from neglm_cli.lm.nbest import write

    for hypotheses in lists:
        scores = scale * scorer.score_list([opened.line(hypothesis.text).ids for hypothesis in hypotheses])
        totals = [
            (hypothesis.score or 0.0) + weight * score for hypothesis, score in zip(hypotheses, scores, strict=True)
        ]
        order = sorted(range(len(totals)), key=lambda i: -totals[i])
        for i in order[:1] if best else order:
            hypothesis = hypotheses[i]
            if json:
                found = {"list": as_text(hypothesis.id), "line": hypothesis.line, "text": as_text(hypothesis.text)}
                numbers = {_field(scale): round(scores[i], DIGITS), "total_score": round(totals[i], DIGITS)}
                console.json_line(found | {"list_score": hypothesis.score} | numbers)
            else:
                _write(write(hypothesis, totals[i], form))
        sys.stdout.flush()


def _field(scale: float) -> str:
    """Return the name of log-probabilities in JSON, which tells their base."""
    return "ln_probability" if scale == 1 else "log10_probability"


def _unseen(count: int) -> None:
    """Ignore the progress of a pipe: its end is unknown, and its reader sees the scores."""


def _write(line: bytes) -> None:
    standard_output().write(line + b"\n")
