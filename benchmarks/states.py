"""Time of the calls that a decoder makes: `advance`, `score` and `top` of states (`neglm_cli.load`).

    python benchmarks/states.py [--data DIR] [--rounds N] [--small] [--json FILE]

The model has the paper's size (2×300) and PTB's vocabulary, and is trained on a few words only, which does not affect
speed. Microseconds per state: one state at a time, and 64 advanced together. The median over rounds of 200 calls by the
clock, and, less sensitive to other processes, the fastest call and the lowest CPU time of a round.
"""

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from side_by_side import NEGLM, THREADS, option_parser, output, spread, text_of, workplace

import neglm_cli

CALLS, BEAM = 200, 64
TRAIN = [NEGLM, "train-lm", "part.txt", "--epochs", "1", "--threads", THREADS, "--quiet"]


class Times(NamedTuple):
    """Microseconds per state."""

    mean: float  # by the clock
    lowest: float  # of a single call, by the clock
    cpu: float  # mean CPU time of all threads


def microseconds(call: Callable[[], object], states: int = 1) -> Times:
    """Time calls; the results are for each of `states` states."""
    each = []
    cpu = time.process_time()
    for _ in range(CALLS):
        start = time.perf_counter()
        call()
        each.append(time.perf_counter() - start)
    cpu = time.process_time() - cpu
    return Times(*(1e6 * value / states for value in (statistics.mean(each), min(each), cpu / CALLS)))


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
    found: dict[str, list[Times]] = {name: [] for name in calls}
    for _ in range(options.rounds):
        for name, (call, states) in calls.items():
            found[name].append(microseconds(call, states))
    print(f"states, 2×300, 10,000 words: microseconds per state, median of {options.rounds} (lowest to highest)")
    for name, times in found.items():
        fastest, cpu = min(each.lowest for each in times), min(each.cpu for each in times)
        print(f"  {name:<28}{spread([each.mean for each in times])}, fastest call {fastest:.1f}, CPU time {cpu:.1f}")
    if options.json:
        with open(options.json, "a", encoding="utf-8") as file:
            medians = {name: round(statistics.median(each.mean for each in times), 1) for name, times in found.items()}
            file.write(json.dumps({"job": "states", "microseconds": medians}) + "\n")


if __name__ == "__main__":
    main()
