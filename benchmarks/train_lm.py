"""How fast `neglm train-lm` trains: beside PyTorch on the processor, with the same model and the same text, taking turns.

    python benchmarks/train_lm.py [--data DIR] [--rounds N] [--part all|ptb|gemm|vocabulary|1b]

ptb: 2×300, batch 20, 20 steps, k = 100, dropout 0.5, SGD with clipping, on the first words of PTB: independent noise
words, noise words shared by the minibatch, and the full softmax. Words/s are those of the training alone, without
start-up; a ratio is that of two rates of one round, and the median of the rounds counts.
gemm: the rate of the LSTM's products, as a share of the best that NumPy's sgemm reaches on this machine.
vocabulary: words/s with 10,000 and with 800,000 words in the vocabulary, the same model.
1b: 1×512, batch 1000, 64,000 words, Adam.
"""

import argparse
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

NEGLM = str(Path(sys.executable).with_name("neglm"))
THREADS = "2"
MINIBATCHES = 150
WORDS = 400 * MINIBATCHES + 20  # of PTB
PEER = r"""
import json, sys, time
import torch
from torch import nn
from torch.nn import functional as F

path, words, mode, hidden, layers, rows, k, dropout, optimizer, minibatches = sys.argv[1:]
hidden, layers, rows, k, minibatches, dropout = int(hidden), int(layers), int(rows), int(k), int(minibatches), float(dropout)
torch.set_num_threads(2)
steps = 20
ids = {word: i for i, word in enumerate(open(words, "rb").read().split(b"\n")[:-1])}
unknown, end = ids[b"<unk>"], ids[b"<eos>"]
text = [ids.get(word, unknown) for line in open(path, "rb") for word in [*line.split(), b"<eos>"]]
stretch = (len(text) - 1) // rows
text = torch.tensor(text)
inputs, targets = (text[s : s + rows * stretch].view(rows, stretch).t().contiguous() for s in (0, 1))
counts = torch.bincount(text, minlength=len(ids)).double().clamp(min=1)
noise_of = counts / counts.sum()

embedding = nn.Embedding(len(ids), hidden, sparse=True)
lstm = nn.LSTM(hidden, hidden, layers, dropout=dropout if layers > 1 else 0.0)
output = nn.Linear(hidden, len(ids)) if mode == "softmax" else nn.Embedding(len(ids), hidden, sparse=True)
drop = nn.Dropout(dropout)
for parameter in [*embedding.parameters(), *lstm.parameters()]:
    nn.init.uniform_(parameter, -0.1, 0.1)
nn.init.zeros_(output.weight)
parameters = [*embedding.parameters(), *lstm.parameters(), *output.parameters()]
if optimizer == "sgd":
    optimizers = [torch.optim.SGD(parameters, lr=1.0)]
else:
    sparse = [embedding.weight, output.weight]
    optimizers = [torch.optim.SparseAdam(sparse), torch.optim.Adam(lstm.parameters())]


def clip(limit):
    total = 0.0
    for p in parameters:
        p.grad = p.grad.coalesce() if p.grad.is_sparse else p.grad
        total = total + (p.grad.values() if p.grad.is_sparse else p.grad).pow(2).sum()
    scale = torch.clamp(limit / (total.sqrt() + 1e-6), max=1.0)
    for p in parameters:
        (p.grad.values() if p.grad.is_sparse else p.grad).mul_(scale)


def loss_of(h, y):
    if mode == "softmax":
        return F.cross_entropy(output(h).view(-1, len(ids)), y.reshape(-1), reduction="sum")
    if mode == "token":
        noise = torch.multinomial(noise_of, y.numel() * k, replacement=True).view(*y.shape, k)
        chosen = torch.cat([y.unsqueeze(2), noise], 2)
        scores = torch.matmul(output(chosen), h.unsqueeze(3)).squeeze(3)
        truth = torch.zeros_like(scores)
        truth[:, :, 0] = 1
        return F.binary_cross_entropy_with_logits(scores, truth, reduction="sum")
    noise = torch.multinomial(noise_of, k, replacement=True)
    return F.softplus(h @ output(noise).t()).sum() + F.softplus(-(output(y) * h).sum(2)).sum()


state, warm = None, max(2, minibatches // 10)
for number in range(min(minibatches, stretch // steps)):
    if number == warm:
        start = time.perf_counter()
    x, y = (array[number * steps : (number + 1) * steps] for array in (inputs, targets))
    h, state = lstm(drop(embedding(x)), state)
    state = tuple(s.detach() for s in state)
    for o in optimizers:
        o.zero_grad()
    (loss_of(drop(h), y) / rows).backward()
    clip(5.0)
    for o in optimizers:
        o.step()
seconds = time.perf_counter() - start
print(json.dumps({"words_per_second": (number + 1 - warm) * rows * steps / seconds}))
"""


def run(*command: str) -> Any:
    """The JSON that a command prints."""
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(done.stdout) if done.stdout else None


def neglm_rate(*options: str) -> float:
    """Words per second of one epoch."""
    command = (NEGLM, "train-lm", "--epochs", "1", "--threads", THREADS, "--json", "-o", "model.safetensors", *options)
    return float(run(*command)["words_per_second"])


def peer_rate(path: str, *options: str) -> float:
    return float(run(sys.executable, "-c", PEER, path, "words.txt", *options)["words_per_second"])


def compare(name: str, rounds: int, mine: list[str], path: str, peers: list[str]) -> None:
    neglm_rate(path, *mine)  # compiles, and makes the encoded copy
    rates = [(neglm_rate(path, *mine), peer_rate(path, *peers)) for _ in range(rounds)]
    ours, theirs = (statistics.median(column) for column in zip(*rates, strict=True))
    ratios = [a / b for a, b in rates]
    print(
        f"  {name:<34}{ours:>9,.0f}{theirs:>10,.0f}{statistics.median(ratios):>8.2f}  "
        f"({min(ratios):.2f} to {max(ratios):.2f})",
        flush=True,
    )


def write_words(vocabulary: str) -> None:
    """The vocabulary's words, one a line, for the peer."""
    text = subprocess.run((NEGLM, "info", vocabulary, "--words"), check=True, stdout=subprocess.PIPE).stdout
    Path("words.txt").write_bytes(b"".join(line.split(b"\t")[0] + b"\n" for line in text.splitlines()))


def ptb(data: Path, rounds: int) -> None:
    source = data / "ptb" / "ptb.train.txt"
    if not source.exists():
        sys.exit(f"{source} is not there: name the directory that has ptb/ptb.train.txt with --data")
    run(NEGLM, "vocab", str(source), "--quiet")
    write_words("vocab.safetensors")
    lines, words = [], 0
    with open(source, "rb") as file:
        while words < WORDS:
            lines.append(file.readline())
            words += len(lines[-1].split()) + 1
    Path("part.txt").write_bytes(b"".join(lines))
    same = ["300", "2", "20", "100", "0.5", "sgd", str(MINIBATCHES)]
    print(f"PTB, 2×300: words/s, median of {rounds}, and the ratio (lowest and highest)")
    print(f"  {'':<34}{'neglm':>9}{'PyTorch':>10}{'ratio':>8}")
    compare("independent noise words", rounds, ["--noise", "token"], "part.txt", ["token", *same])
    compare("noise words shared by a minibatch", rounds, ["--noise", "batch"], "part.txt", ["batch", *same])
    compare("full softmax", rounds, ["--loss", "softmax"], "part.txt", ["softmax", *same])
    print(flush=True)


def gemm(rounds: int) -> None:
    """The LSTM's products beside the best sgemm: in processes of their own, whose threads do not meet."""
    best, layer = [], []
    for _ in range(rounds):
        best.append(run(sys.executable, "-c", SGEMM)["rate"])
        layer.append(run(sys.executable, "-c", LSTM)["rate"])
    share = statistics.median(a / b for a, b in zip(layer, best, strict=True))
    print(
        f"LSTM, 2×300, forward and backward: {statistics.median(layer):.0f} GFLOP/s; sgemm of NumPy, 2048³: "
        f"{statistics.median(best):.0f} GFLOP/s; {share:.0%} of it\n",
        flush=True,
    )


SGEMM = """
import json, time
import numpy as np
a = np.random.default_rng(0).random((2048, 2048), np.float32)
b, c = a.copy(), a.copy()
np.dot(a, b, out=c)
times = []
for _ in range(12):
    start = time.perf_counter()
    np.dot(a, b, out=c)
    times.append(time.perf_counter() - start)
print(json.dumps({"rate": 2 * 2048**3 / min(times) / 1e9}))
"""
LSTM = f"""
import json, statistics, time
import numpy as np
from neglm_cli.barrier import meet
from neglm_cli.kernels import kernel
from neglm_cli.lm.cpu import arrays, lstm
from neglm_cli.lm.cpu.device import Team
from neglm_cli.lm.parameters import Shape, start

shape, batch, steps, threads = Shape(100, 300, 300, 2), 20, 20, {THREADS}
own = arrays.shares(shape, threads)
weights = arrays.packed_weights(start(shape, 1, 0.1, 0.0, 0.0))
gradients, states, way = arrays.weights_like(weights), arrays.states(shape, batch, steps), arrays.way(shape, batch, steps, own)
back, keep = arrays.transposed(shape, own), np.ones(batch * (steps + 1), np.float32)
states.x[:] = np.random.default_rng(0).normal(size=states.x.shape)
way.d_out[:] = np.random.default_rng(1).normal(size=way.d_out.shape)
for layer in range(2):
    lstm.transpose(weights.w[layer], back.w[layer], back.w_starts, back.w_ends[layer], 0, weights.w.shape[1])
    lstm.transpose(weights.u[layer], back.u[layer], back.u_starts, back.u_ends, 0, weights.w.shape[1])

@kernel
def work(weights, gradients, states, way, back, keep, own, batch, steps, thread, threads, counter):
    first, last = own.panels[thread], own.panels[thread + 1]
    rows = batch * steps
    meet(counter, threads)
    for layer in range(2):
        lstm.forward(states.x[layer], 300, weights.w[layer], weights.u[layer], weights.b[layer], states.z[layer],
                     states.h[layer], states.c[layer], states.out[layer], keep, batch, steps, first, last, counter, threads)
    for layer in range(1, -1, -1):
        lstm.backward(states.z[layer], states.c[layer], way.d_out, back.u[layer], own.back[thread], way.d_later[thread],
                      way.d_c[thread], keep, batch, steps, first, last, counter, threads)
        lstm.weight_gradients(states.x[layer], 300, states.h[layer], states.z[layer], gradients.w[layer],
                              gradients.u[layer], gradients.b[layer], rows, first, last)
        lstm.input_gradients(states.z[layer], back.w[layer], way.d_x[layer], 300,
                             rows * thread // threads, rows * (thread + 1) // threads)
    meet(counter, threads)

team = Team(threads)
arguments = (work, weights, gradients, states, way, back, keep, own, batch, steps)
team.run(*arguments)
times = []
for _ in range(20):
    begun = time.perf_counter()
    waiting = [team.start(*arguments) for _ in range(5)]
    for part in waiting:
        for future in part:
            future.result()
    times.append((time.perf_counter() - begun) / 5)
team.close()
print(json.dumps({{"rate": 2 * 6 * 2 * 400 * 300 * 1200 / statistics.median(times) / 1e9}}))
"""


def zipf_text(path: str, vocabulary: int, words: int) -> None:
    """A text whose words have Zipf's frequencies, and vocab-PATH of all of them, seen or not."""
    import numpy as np

    counts = np.maximum(4_000_000 // np.arange(1, vocabulary - 1), 1)
    Path("list.tsv").write_text("".join(f"w{i}\t{count}\n" for i, count in enumerate(counts.tolist())))
    run(NEGLM, "vocab", "--merge", "list.tsv", "-o", f"vocab-{path}", "--quiet")
    drawn = np.random.default_rng(0).choice(len(counts), words, p=counts / counts.sum())
    lines = [" ".join(f"w{i}" for i in drawn[first : first + 20]) for first in range(0, words, 20)]
    Path(path).write_text("\n".join(lines) + "\n")


def vocabulary_sizes(rounds: int) -> None:
    sizes = {"small": 10_000, "large": 800_000}
    for name, size in sizes.items():
        zipf_text(name, size, 120_000)
        neglm_rate(name, "--vocab", f"vocab-{name}")
    rates = [[neglm_rate(name, "--vocab", f"vocab-{name}") for name in sizes] for _ in range(rounds)]
    small, large = (statistics.median(column) for column in zip(*rates, strict=True))
    share = statistics.median(b / a for a, b in rates)
    print(
        f"2×300, k 100: {small:,.0f} words/s with 10,000 words in the vocabulary, {large:,.0f} with 800,000; "
        f"{share:.2f} of it\n",
        flush=True,
    )


def one_billion(rounds: int) -> None:
    zipf_text("billion", 64_000, 22_000 * 12)
    write_words("vocab-billion")
    mine = ["--preset", "1b", "--vocab", "vocab-billion"]
    print(f"1×512, batch 1000, 64,000 words, Adam: words/s, median of {rounds}, and the ratio (lowest and highest)")
    print(f"  {'':<34}{'neglm':>9}{'PyTorch':>10}{'ratio':>8}")
    same = ["512", "1", "1000", "100", "0.1", "adam", "10"]
    compare("independent noise words", rounds, [*mine, "--noise", "token"], "billion", ["token", *same])
    compare("noise words shared by a minibatch", rounds, [*mine, "--noise", "batch"], "billion", ["batch", *same])
    print(flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--part", choices=["all", "ptb", "gemm", "vocabulary", "1b"], default="all")
    options = parser.parse_args()
    data = options.data.resolve()
    if options.part in ("all", "ptb", "1b") and importlib.util.find_spec("torch") is None:
        sys.exit("PyTorch is not installed: pip install torch==2.13.0")
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}, {THREADS} threads; "
        f"{time.strftime('%Y-%m-%d')}\n",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        if options.part in ("all", "ptb"):
            ptb(data, options.rounds)
        if options.part in ("all", "gemm"):
            gemm(options.rounds)
        if options.part in ("all", "vocabulary"):
            vocabulary_sizes(options.rounds)
        if options.part in ("all", "1b"):
            one_billion(options.rounds)


if __name__ == "__main__":
    main()
