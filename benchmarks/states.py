"""Time of the calls that a decoder makes: `advance`, `score` and `top` of states (`neglm_cli.load`).

    python benchmarks/states.py [--data DIR] [--rounds N] [--small] [--json FILE]

The model has the paper's size (2×300) and PTB's vocabulary, and is trained on a few words only, which does not affect
speed. Microseconds per state, the median over rounds of 200 calls: one state at a time, and 64 advanced together.
"""

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from side_by_side import NEGLM, THREADS, option_parser, output, spread, text_of, workplace

import neglm_cli

CALLS, BEAM = 200, 64
TRAIN = [NEGLM, "train-lm", "part.txt", "--epochs", "1", "--threads", THREADS, "--quiet"]


def microseconds(call: Callable[[], object], states: int = 1) -> float:
    """Time calls; the result is for each of `states` states."""
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - start) / CALLS / states * 1e6


def main() -> None:
    options = option_parser(__doc__, rounds=5).parse_args()
    text = text_of(options, "ptb", "ptb.train.txt")
    with workplace():
        Path("train.txt").write_bytes(text)
        Path("part.txt").write_bytes(text[:20_000])
        output(NEGLM, "vocab", "train.txt", "--quiet", "--max-vocab", "10000")
        output(*TRAIN)
        model = neglm_cli.load("model.safetensors")
        assert isinstance(model, neglm_cli.LanguageModel)
        words = [word.decode() for word in text.split()[:BEAM]]
    state = model.start()
    beam = model.advance([state] * BEAM, words)
    fresh = iter(model.advance([state] * CALLS * options.rounds, [words[0]] * CALLS * options.rounds))
    calls: dict[str, tuple[Callable[[], object], int]] = {
        "advance": (lambda: state.advance(words[0]), 1),
        f"advance {BEAM} together": (lambda: model.advance(beam, words), BEAM),
        "score, first of a state": (lambda: next(fresh).score(words[1]), 1),
        "score, another word": (lambda: state.score(words[1]), 1),
        "score, unnormalized": (lambda: state.score(words[1], normalized=False), 1),
        "top(5)": (lambda: state.top(5), 1),
    }
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(options.rounds):
        for name, (call, states) in calls.items():
            found[name].append(microseconds(call, states))
    print(f"states, 2×300, 10,000 words: microseconds per state, median of {options.rounds} (lowest to highest)")
    for name, values in found.items():
        print(f"  {name:<28}{spread(values)}")
    if options.json:
        with open(options.json, "a", encoding="utf-8") as file:
            medians = {name: round(statistics.median(values), 1) for name, values in found.items()}
            file.write(json.dumps({"job": "states", "microseconds": medians}) + "\n")


if __name__ == "__main__":
    main()
