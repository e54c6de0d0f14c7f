"""Example programs of neglm-format(5): each is complete, runs without neglm, and is run by the tests."""

VOCABULARY = """
from safetensors import safe_open

with safe_open("vocab.safetensors", "numpy") as file:
    tensor = {name: file.get_tensor(name) for name in file.keys()}
    kind = file.metadata()["kind"]
start, end = tensor["offsets"][:2]
print(bytes(tensor["words"][start:end]), tensor["counts"][0], kind)
"""

QUANTIZED = """
import numpy as np
from safetensors import safe_open

with safe_open("small.safetensors", "numpy") as file:
    tensor = {name: file.get_tensor(name) for name in file.keys()}
    dsub = int(file.metadata()["dsub"])
words, starts = bytes(tensor["words"]), tensor["offsets"]
dimensions = np.arange(tensor["centroids"].shape[1])
codes = tensor["codes"][:, dimensions // dsub]
vectors = tensor["centroids"][codes, dimensions]
vectors *= tensor["scales"][:, None]
for start, end, vector in zip(starts, starts[1:], vectors):
    word = words[start:end].decode(errors="replace")
    print(word, *vector.tolist())
"""

PYTORCH = """
import json
import sys
import torch
from safetensors import safe_open

with safe_open(sys.argv[1], "pt") as file:
    meta = file.metadata()
    tensor = {name: file.get_tensor(name) for name in file.keys()}
text = bytes(tensor["words"].tolist())
ends = tensor["offsets"].tolist()
ids = {text[a:b]: i for i, (a, b) in enumerate(zip(ends, ends[1:]))}
eos, unk = ids[b"<eos>"], ids[b"<unk>"]
options = json.loads(meta["arguments"]) | meta
reset = options.get("reset_at_eos") in (True, "true")

vectors = tensor.get("embedding", tensor["output"])  # tied
hidden = tensor["output"].shape[1]
lstm = torch.nn.LSTM(vectors.shape[1], hidden, int(meta["layers"]))
weights = {}
for n in range(lstm.num_layers):
    weights[f"weight_ih_l{n}"] = tensor[f"lstm.{n}.w_ih"].T
    weights[f"weight_hh_l{n}"] = tensor[f"lstm.{n}.w_hh"].T
    weights[f"bias_ih_l{n}"] = tensor[f"lstm.{n}.bias"]
    weights[f"bias_hh_l{n}"] = torch.zeros(4 * hidden)
lstm.load_state_dict(weights)

noise = tensor["counts"].double() ** float(meta["noise_alpha"])
offset = torch.full_like(noise, -float(meta["log_z"]))
if meta["loss"] in ("neglm", "neglm-b"):
    offset += torch.log(int(meta["k"]) * noise / noise.sum())
if meta["loss"] in ("neglm-b", "nce", "softmax"):
    offset += tensor["output_bias"]

last, state = eos, None  # None: zeros
for line in open(sys.argv[2], "rb"):
    for word in [*line.split(), b"<eos>"]:
        if reset and last == eos:
            state = None
        with torch.no_grad():
            h, state = lstm(vectors[[last]], state)
        logits = tensor["output"] @ h[0] + offset
        last = ids.get(word, unk)
        log_p = logits[last] - logits.logsumexp(0)
        numbers = float(log_p), float(logits[last])
        print(word.decode(errors="replace"), last, *numbers)
"""

NUMPY = """
import json
import sys
import numpy as np
from safetensors import safe_open

with safe_open(sys.argv[1], "numpy") as file:
    meta = file.metadata()
    tensor = {name: file.get_tensor(name) for name in file.keys()}
text = bytes(tensor["words"])
ends = tensor["offsets"].tolist()
ids = {text[a:b]: i for i, (a, b) in enumerate(zip(ends, ends[1:]))}
eos, unk = ids[b"<eos>"], ids[b"<unk>"]
options = json.loads(meta["arguments"]) | meta
reset = options.get("reset_at_eos") in (True, "true")

def sigmoid(z):
    return (1 + np.tanh(z / 2)) / 2

def lstm(x, state):
    for n, (h, c) in enumerate(state):
        z = x @ tensor[f"lstm.{n}.w_ih"] + tensor[f"lstm.{n}.bias"]
        z += h @ tensor[f"lstm.{n}.w_hh"]
        i, f, g, o = np.split(z, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        x = sigmoid(o) * np.tanh(c)
        state[n] = x, c
    return x

noise = tensor["counts"].astype(float) ** float(meta["noise_alpha"])
offset = np.full(len(noise), -float(meta["log_z"]))
if meta["loss"] in ("neglm", "neglm-b"):
    offset += np.log(int(meta["k"]) * noise / noise.sum())
if meta["loss"] in ("neglm-b", "nce", "softmax"):
    offset += tensor["output_bias"]

vectors = tensor.get("embedding", tensor["output"])  # tied
zero = np.zeros(tensor["output"].shape[1])
last, state = eos, [(zero, zero)] * int(meta["layers"])
for line in open(sys.argv[2], "rb"):
    for word in [*line.split(), b"<eos>"]:
        if reset and last == eos:
            state = [(zero, zero)] * len(state)
        h = lstm(vectors[last], state)
        logits = tensor["output"] @ h + offset
        last = ids.get(word, unk)
        log_p = logits[last] - np.logaddexp.reduce(logits)
        numbers = float(log_p), float(logits[last])
        print(word.decode(errors="replace"), last, *numbers)
"""

CHECKSUM = """
import sys
import xxhash

path, mark = sys.argv[-1], b'"checksum":"'
with open(path, "r+b" if "--write" in sys.argv else "rb") as file:
    length = file.read(8)
    head = length + file.read(int.from_bytes(length, "little"))
    data = xxhash.xxh3_128(file.read()).digest()
    at = head.index(mark) + len(mark)
    stored, zeros = head[at : at + 32], b"0" * 32
    unsigned = head[:at] + zeros + head[at + 32 :]
    computed = xxhash.xxh3_128(unsigned + data).hexdigest().encode()
    if "--write" in sys.argv:
        file.seek(at)
        file.write(computed)
    elif stored != computed:
        sys.exit(f"{path}: wrong checksum")
"""
