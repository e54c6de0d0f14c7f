"""The peer of benchmarks/train_lm.py: the same training in PyTorch, with nn.LSTM and sparse embeddings."""

import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional

STEPS = 20
CLIP = 5.0

path, words, mode = sys.argv[1:4]
hidden, layers, rows, k = map(int, sys.argv[4:8])
dropout, optimizer, minibatches = float(sys.argv[8]), sys.argv[9], int(sys.argv[10])
torch.set_num_threads(2)

with open(words, "rb") as file:
    ids = {line[:-1]: number for number, line in enumerate(file)}
with open(path, "rb") as file:
    unknown = ids[b"<unk>"]
    text = torch.tensor([ids.get(word, unknown) for line in file for word in [*line.split(), b"<eos>"]])
segment = (len(text) - 1) // rows
inputs, targets = (text[first : first + rows * segment].view(rows, segment).t().contiguous() for first in (0, 1))
counts = torch.bincount(text, minlength=len(ids)).double().clamp(min=1)
noise_probabilities = counts / counts.sum()

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
    optimizers = [torch.optim.SparseAdam([embedding.weight, output.weight]), torch.optim.Adam(lstm.parameters())]


def clip() -> None:
    """Clip by global norm, with sparse gradients."""
    total = torch.zeros(())
    for p in parameters:
        p.grad = p.grad.coalesce() if p.grad.is_sparse else p.grad
        total = total + (p.grad.values() if p.grad.is_sparse else p.grad).pow(2).sum()
    scale = torch.clamp(CLIP / (total.sqrt() + 1e-6), max=1.0)
    for p in parameters:
        (p.grad.values() if p.grad.is_sparse else p.grad).mul_(scale)


def loss(h: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if mode == "softmax":
        return functional.cross_entropy(output(h).view(-1, len(ids)), y.reshape(-1), reduction="sum")
    if mode == "token":
        noise = torch.multinomial(noise_probabilities, y.numel() * k, replacement=True).view(*y.shape, k)
        chosen = torch.cat([y.unsqueeze(2), noise], 2)
        scores = torch.matmul(output(chosen), h.unsqueeze(3)).squeeze(3)
        truth = torch.zeros_like(scores)
        truth[:, :, 0] = 1
        return functional.binary_cross_entropy_with_logits(scores, truth, reduction="sum")
    noise = torch.multinomial(noise_probabilities, k, replacement=True)
    return functional.softplus(h @ output(noise).t()).sum() + functional.softplus(-(output(y) * h).sum(2)).sum()


state = None
warm = max(2, minibatches // 10)
count = min(minibatches, segment // STEPS)
for number in range(count):
    if number == warm:
        start = time.perf_counter()
    x, y = (array[number * STEPS : (number + 1) * STEPS] for array in (inputs, targets))
    h, state = lstm(drop(embedding(x)), state)
    state = tuple(part.detach() for part in state)
    for each in optimizers:
        each.zero_grad()
    (loss(drop(h), y) / rows).backward()
    clip()
    for each in optimizers:
        each.step()
print(json.dumps({"words_per_second": (count - warm) * rows * STEPS / (time.perf_counter() - start)}))
