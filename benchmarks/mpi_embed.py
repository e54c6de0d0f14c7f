"""How good the vectors of `neglm embed` are when several processes train them, and what these send for it.

    python benchmarks/mpi_embed.py --data ../shared/data [--seeds N --first-seed N] > benchmarks/mpi/embed.md

Five epochs of wiki100.txt at size 100, evaluated as `embed.py --part quality` does. Needs mpirun, beside this Python or
on the PATH (pip install 'neglm[mpi]' mpich). How busy the machine is does not matter: nothing is timed.
"""

import statistics
import sys
from pathlib import Path

from embed import OURS, command, quality
from mpi_traffic import MPIRUN
from side_by_side import NEGLM, option_parser, output, printed_json, text_of, workplace

PROCESSES = (1, 2, 4)
SIZE, EPOCHS = 100, 5

INTRODUCTION = f"""# Vectors that several processes train

Made by `benchmarks/mpi_embed.py`: {EPOCHS} epochs of `neglm embed --size {SIZE}` on 100 MB of Wikipedia, one machine.
One process has two threads, several have one each. Means over seeds {{first}} to {{last}}, in points (Spearman;
3CosAdd), with the lowest and the highest; how far the means are from those of one process; and what a process sent for
each word that it trained on.

| processes | WordSim-353 | SimLex-999 | analogies | from one process | bytes for a word |
|---|---|---|---|---|---|"""


def main() -> None:
    parser = option_parser(__doc__, rounds=1)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=1)
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    with workplace():
        Path("corpus.txt").write_bytes(text_of(options, "wiki", "wiki100.txt"))
        output(NEGLM, "vocab", "corpus.txt", "--quiet")
        print(INTRODUCTION.format(first=seeds[0], last=seeds[-1]), flush=True)
        alone: list[float] = []
        for processes in PROCESSES:
            figures, sent = [], 0.0
            for seed in seeds:
                run = command(OURS, SIZE, EPOCHS, seed)
                if processes > 1:
                    run = [MPIRUN, "-n", str(processes), *run, "--threads", "1"]
                found = printed_json(*run)
                sent = found.get("bytes_sent", 0) / (found["tokens"] / processes)
                figures.append(quality(options.data))
                print(f"{processes} processes, seed {seed}: {figures[-1]}", file=sys.stderr, flush=True)
            columns = list(zip(*figures, strict=True))
            means = [statistics.mean(column) for column in columns]
            alone = alone or means
            cells = [f"{mean:.2f} ({min(c):.2f}–{max(c):.2f})" for mean, c in zip(means, columns, strict=True)]
            away = ", ".join(f"{mean - one:+.2f}" for mean, one in zip(means, alone, strict=True))
            print(f"| {processes} | {' | '.join(cells)} | {away} | {sent:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
