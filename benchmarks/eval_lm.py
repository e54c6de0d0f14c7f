"""Speed of `neglm eval`, compared with PyTorch on the same model file, in turn.

    python benchmarks/eval_lm.py [--data DIR] [--rounds N] [--small] [--peers PYTHON] [--json FILE]

The model has the paper's size (2×300) and PTB's vocabulary, and is trained on a few words only, which does not affect
speed. The text is PTB's test set, in chunks of 256 words, with exact, normalized probabilities. Words/s exclude
startup. Both must compute the same perplexity.
"""

import sys
from pathlib import Path
from typing import Any

from side_by_side import (
    HERE,
    NEGLM,
    THREADS,
    compare,
    find_peer,
    option_parser,
    output,
    printed_json,
    text_of,
    workplace,
)

TRAIN = [NEGLM, "train-lm", "part.txt", "--epochs", "1", "--threads", THREADS, "--quiet"]
EVAL = [NEGLM, "eval", "--test", "test.txt", "--threads", THREADS, "--json"]
TOLERANCE = 1e-3  # of the perplexity, for float32 sums


def evaluated() -> dict[str, Any]:
    """Evaluate the model by neglm; the result of the only text."""
    found: dict[str, Any] = printed_json(*EVAL)["test"][0]
    return found


def main() -> None:
    options = option_parser(__doc__, rounds=5).parse_args()
    text, test = (text_of(options, "ptb", f"ptb.{part}.txt") for part in ("train", "test"))
    if options.small:
        test = test[:20_000]
    peer = find_peer("torch", "PyTorch", options.peers)
    if peer is None:
        return
    pytorch = [peer.python, str(HERE / "eval_lm_pytorch.py"), "model.safetensors", "test.txt"]
    with workplace():
        Path("train.txt").write_bytes(text)
        Path("part.txt").write_bytes(text[:20_000])
        Path("test.txt").write_bytes(test)
        output(NEGLM, "vocab", "train.txt", "--quiet", "--max-vocab", "10000")
        output(*TRAIN)
        mine, theirs = evaluated()["perplexity"], printed_json(*pytorch)["perplexity"]
        if abs(mine / theirs - 1) > TOLERANCE:
            sys.exit(f"neglm computes a perplexity of {mine}, {peer.name} {theirs}: not the same work")
        print(f"perplexity {mine:.3f}; {peer.name}: {theirs:.3f}\n")
        runs = {
            "neglm eval": lambda: float(evaluated()["words_per_second"]),
            peer.name: lambda: float(printed_json(*pytorch)["words_per_second"]),
        }
        compare("eval", "2×300, 10,000 words", "words/s", runs, {peer.name}, options)


if __name__ == "__main__":
    main()
