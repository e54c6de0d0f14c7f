"""The repository's README.md and examples/results: summaries of the recipes' results."""

import json
from pathlib import Path
from statistics import median

from made import Made, number, read_benchmarks, read_log, read_test, table
from ptb import TRAININGS, epochs_of, on_test, runs_in

# Of examples/ptb: the directory of the training, and its options.
OPTIONS = {
    "neglm-z": "NEGLM, `--loss neglm`",
    "neglm": "NEGLM as in the paper, `--loss neglm --log-z 0`",
    "b": "NEGLM-B as in the paper, `--loss neglm-b --log-z 0`",
    "nce": "NCE, `--loss nce`: biases start at −log V",
    "nce0": "NCE with biases that start at 0, `--loss nce --bias-init 0`",
    "softmax": "full softmax, as a baseline, `--loss softmax`",
}
# Small models: their recipe, its trainings with log Z = 0, with log Z = log k, with the softmax.
SMALL = {
    "PTB, 1×100": ("alpha", "alpha-1", "z-k-100", None),
    "WikiText-2, 1×64": ("wikitext-2", "neglm", "neglm-z", "softmax"),
}
OMITTED = ("--deterministic", "LC_ALL=C")  # rows of the page of benchmarks
# Rows of the short table: the job in the benchmarks, the peer, and their name on the page.
FASTER = {
    ("embed: size 100", "gensim"): "word vectors, size 100",
    ("train-lm: 2×300, independent noise", "PyTorch"): "language model, 2×300",
}


def make(directories: list[Path]) -> Made:
    """Make the table of README.md from the directory of all recipes."""
    return Made({"short": _short(directories[0])}, {}, {})


def make_results(directories: list[Path]) -> Made:
    """Make the tables of examples/results from the directory of all recipes."""
    recipes = directories[0]
    tables = {"quality": _quality(recipes / "ptb"), "constant": _constant(recipes), "speed": _speed()}
    return Made(tables, {}, {})


def _short(recipes: Path) -> str:
    seeds = [runs_in(directory) for directory in sorted((recipes / "ptb" / "results").iterdir())]

    def on_ptb(name: str) -> str:
        return on_test([seed[name] for seed in seeds if name in seed]).replace("*", "")

    others = f"{on_ptb('nce')} NCE, {on_ptb('softmax')} full softmax; paper: {number(TRAININGS['neglm'][1])} NEGLM, "
    rows = [["PTB test perplexity, 2×300", f"**{on_ptb('neglm-z')}**", others + f"{number(TRAININGS['nce'][1])} NCE"]]
    modern = number(read_test(recipes / "modern" / "results" / "modern.json")["perplexity"])
    rows.append(["the same size, [`--preset modern`](examples/modern)", f"**{modern}**", "one seed so far"])
    for each in read_benchmarks():
        for (job, peer), title in FASTER.items():
            if each.job == job and each.peer.startswith(peer) and not any(o in each.ours for o in OMITTED):
                rows.append([f"{title}, words/s", f"**{each.our_rate}**", f"{each.peers_rate} {each.peer}"])
    runs = [json.loads(line) for line in (recipes / "large-vocabulary/results/speed.jsonl").read_bytes().splitlines()]
    largest = max(int(run["vocabulary"]) for run in runs)
    neglm, softmax = (
        median(run["words_per_second"] for run in runs if run["loss"] == loss and int(run["vocabulary"]) == largest)
        for loss in ("neglm", "softmax")
    )
    title = f"the same with a vocabulary of {largest:,}, words/s"
    rows.append([title, f"**{number(neglm, 0)}**", f"{number(softmax, 0)} full softmax"])
    return table(["", "neglm", "compared with"], rows)


def _quality(recipe: Path) -> str:
    seeds = [runs_in(directory) for directory in sorted((recipe / "results").iterdir())]
    rows = []
    for name, options in OPTIONS.items():
        runs = [seed[name] for seed in seeds if name in seed]
        rows.append([options, number(TRAININGS[name][1]), on_test(runs), epochs_of(runs[0])])
    return table(["", "paper", "here", "epochs"], rows)


def _constant(recipes: Path) -> str:
    rows = []
    for title, (recipe, *trainings) in SMALL.items():
        results = recipes / recipe / "results"
        log = read_log(results / f"{trainings[0]}.log")
        epochs = sum(record["event"] == "epoch" for record in log.records)
        tests = [number(read_test(results / f"{name}.json")["perplexity"]) if name else "–" for name in trainings]
        rows.append([f"[{title}](../{recipe}), epochs: {epochs}", *tests])
    return table(["", "NEGLM as in the paper", "NEGLM", "softmax"], rows)


def _speed() -> str:
    rows = [
        [each.job, f"{each.our_rate} {each.unit}", f"{each.peers_rate} {each.unit}, {each.peer}", f"**{each.ratio}**"]
        for each in read_benchmarks()
        if not any(option in f"{each.ours} {each.peer}" for option in OMITTED)
    ]
    return table(["", "neglm", "peer", "times as fast"], rows)
