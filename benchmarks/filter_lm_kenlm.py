"""The peer of benchmarks/filter_lm.py: the perplexity of each line by the package kenlm."""

import json
import sys
import time

import kenlm

path, text = sys.argv[1:3]
model = kenlm.Model(path)
with open(text, encoding="utf-8") as file:
    lines = file.read().split("\n")[:-1]
words = sum(len(line.split()) + 1 for line in lines)
start = time.perf_counter()
perplexities = [model.perplexity(line) for line in lines]
seconds = time.perf_counter() - start
print(json.dumps({"perplexities": perplexities, "words_per_second": words / seconds}))
