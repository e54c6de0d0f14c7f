"""The peer of benchmarks/eval_lm.py: perplexity in PyTorch, of a model trained by `neglm train-lm`."""

import itertools
import json
import math
import sys
import time

import torch
from safetensors import safe_open
from torch import nn

CHUNK = 256  # words per forward pass
CORRECTED = ("neglm", "neglm-b")  # losses whose scores lack log(k p_α(w))

path, text = sys.argv[1:3]
torch.set_num_threads(2)
torch.set_grad_enabled(False)

with safe_open(path, "pt") as file:
    fields, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
offsets, word_bytes = tensors["offsets"].tolist(), tensors["words"].numpy().tobytes()
ids = {word_bytes[first:last]: i for i, (first, last) in enumerate(itertools.pairwise(offsets))}
words, size = tensors["embedding"].shape
hidden, layers = tensors["output"].shape[1], int(fields["layers"])

lstm = nn.LSTM(size, hidden, layers)
for layer in range(layers):
    getattr(lstm, f"weight_ih_l{layer}").copy_(tensors[f"lstm.{layer}.w_ih"].t())
    getattr(lstm, f"weight_hh_l{layer}").copy_(tensors[f"lstm.{layer}.w_hh"].t())
    getattr(lstm, f"bias_ih_l{layer}").copy_(tensors[f"lstm.{layer}.bias"])
    getattr(lstm, f"bias_hh_l{layer}").zero_()
output = nn.Linear(hidden, words)
output.weight.copy_(tensors["output"])
output.bias.copy_(tensors["output_bias"])
if fields["loss"] in CORRECTED:
    noise = tensors["counts"].double() ** float(fields["noise_alpha"])
    output.bias.add_((float(fields["k"]) * noise / noise.sum()).log().float())

end = ids[b"<eos>"]
with open(text, "rb") as lines:
    read = [ids.get(word, ids[b"<unk>"]) for line in lines for word in [*line.split(), b"<eos>"]]
targets = torch.tensor(read)
inputs = torch.tensor([end, *read[:-1]])
state, total = None, 0.0
start = time.perf_counter()
for first in range(0, len(read), CHUNK):
    x, y = inputs[first : first + CHUNK], targets[first : first + CHUNK]
    h, state = lstm(tensors["embedding"][x], state)
    total -= nn.functional.cross_entropy(output(h), y, reduction="sum").item()
seconds = time.perf_counter() - start
print(json.dumps({"perplexity": math.exp(-total / len(read)), "words_per_second": len(read) / seconds}))
