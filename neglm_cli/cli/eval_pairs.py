"""`neglm eval --minimal-pairs`: grammaticality judgments of a language model."""

from collections import Counter, defaultdict
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from neglm_cli.cli.console import console
from neglm_cli.cli.options import line_preparation
from neglm_cli.cli.progress import Progress
from neglm_cli.cli.reading import Opened, open_model
from neglm_cli.cli.scores import NONE, rounded
from neglm_cli.errors import count_of, visible
from neglm_cli.runs.corpora import SAME_FILES, check_texts
from neglm_cli.scale.agreement import check_same
from neglm_cli.scale.launch import ranks

if TYPE_CHECKING:
    from neglm_cli.lm.minimal_pairs import MinimalPair, PairTally

Tallies = dict[tuple[str, str], "PairTally"]  # by phenomenon and paradigm, in the order of the files


def evaluate_pairs(
    path: str, files: list[str], tokenized: bool, skip_bad: bool, device: str, threads: int | None, json: bool
) -> None:  # fmt: skip
    from neglm_cli.lm.lines import BATCH_WORDS
    from neglm_cli.lm.minimal_pairs import PairFile, base_name
    from neglm_cli.text.corpus import open_corpus

    check_texts(open_corpus(files))
    same_name = Counter(map(base_name, files))
    read = [PairFile(file, skip_bad, file if same_name[base_name(file)] > 1 else None) for file in files]
    pairs = [pair for file in read for pair in file.read()]
    bad = sum(file.bad for file in read)
    opened = open_model(path, device, threads, BATCH_WORDS)
    check_same(ranks(), "model", opened.model.checksum, SAME_FILES)
    try:
        tallies = _judge(opened, pairs, tokenized)
    finally:
        opened.device.close()
    result = {"files": files, "bad": bad, **_figures(tallies)}
    if json:
        sets = {"test": [], "similarity": [], "analogy": [], "minimal_pairs": [result]}
        console.json({"model": path, "vocabulary": len(opened.model.words)} | sets)
    else:
        skipped = f", {count_of(bad, 'bad line')} skipped" if bad else ""
        title = f"{opened.model.name}: {count_of(len(pairs), 'minimal pair')}{skipped}"
        console.result("\n".join([title, *_as_text(result)]))


def _judge(opened: Opened, pairs: "list[MinimalPair]", tokenized: bool) -> Tallies:
    """Tally all pairs; ranks divide them."""
    from neglm_cli.lm.lines import LineEncoder, LineScorer
    from neglm_cli.lm.minimal_pairs import BATCH_PAIRS, PairTally, judge_pairs

    job = ranks()
    mine = (pair for i, pair in enumerate(pairs) if i // BATCH_PAIRS % job.size == job.rank)
    scorer = LineScorer(opened.scorer, opened.model.end_of_line)
    tallies: Tallies = defaultdict(PairTally)
    with Progress("judging", len(pairs) // job.size, unit="K pairs") as progress:
        judged = judge_pairs(mine, LineEncoder(opened.model.words), scorer, line_preparation(tokenized))
        for pair, correct, tie, oov in judged:
            tallies[pair.phenomenon, pair.paradigm].add(correct, tie, oov)
            progress.advance(1)
    total: Tallies = {(pair.phenomenon, pair.paradigm): PairTally() for pair in pairs}
    for part in job.allgather(dict(tallies)):
        for key, tally in part.items():
            total[key] += tally
    return total


def _figures(tallies: Tallies) -> dict[str, Any]:
    """Return the tallies by phenomenon, with their paradigms, and in all."""
    from neglm_cli.lm.minimal_pairs import PairTally

    by_phenomenon: dict[str, list[tuple[str, PairTally]]] = defaultdict(list)
    for (phenomenon, paradigm), tally in tallies.items():
        by_phenomenon[phenomenon].append((paradigm, tally))
    phenomena = [
        {"name": name, **_counts(sum((tally for _, tally in members), PairTally()))}
        | {"paradigms": [{"name": paradigm, **_counts(tally)} for paradigm, tally in members]}
        for name, members in sorted(by_phenomenon.items())
    ]
    return {"phenomena": phenomena, "total": _counts(sum(tallies.values(), PairTally()))}


def _counts(tally: "PairTally") -> dict[str, Any]:
    accuracies = {"accuracy": tally.accuracy, "accuracy_without_oov": tally.accuracy_without_oov}
    return asdict(tally) | {name: rounded(value) for name, value in accuracies.items()}


def _as_text(result: dict[str, Any]) -> list[str]:
    """Return a row for each phenomenon, its paradigms if there are several, and the total."""
    rows: list[tuple[str, dict[str, Any]]] = []
    for phenomenon in result["phenomena"]:
        rows.append((visible(phenomenon["name"]), phenomenon))
        if len(phenomenon["paradigms"]) > 1:
            rows += [(f"  {visible(paradigm['name'])}", paradigm) for paradigm in phenomenon["paradigms"]]
    rows.append(("total", result["total"]))
    width = max(len(name) for name, _ in rows)
    lines = [f"  {'':<{width}}{'accuracy':>10}{'pairs':>9}{'ties':>8}{'with OOV':>10}{'accuracy without OOV':>22}"]
    return lines + [
        f"  {name:<{width}}{_share(row['accuracy']):>10}{row['pairs']:>9,}{row['ties']:>8,}{row['oov']:>10,}"
        f"{_share(row['accuracy_without_oov']):>22}"
        for name, row in rows
    ]


def _share(value: float | None) -> str:
    return NONE if value is None else f"{value:.4f}"
