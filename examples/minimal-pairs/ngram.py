"""The accuracy of an n-gram model on minimal pairs, by the package kenlm: a baseline for `neglm eval --minimal-pairs`.

python ngram.py lm.arpa|lm.bin blimp/*.jsonl
"""

import sys
from collections import Counter

import kenlm

from neglm_cli.lm.minimal_pairs import PairFile
from neglm_cli.text.tokenization import tokenize

model = kenlm.Model(sys.argv[1])
pairs: Counter[str] = Counter()
correct: Counter[str] = Counter()
for path in sys.argv[2:]:
    for pair in PairFile(path).read():
        good, bad = (model.score(tokenize(sentence).decode()) for sentence in (pair.good, pair.bad))
        pairs[pair.phenomenon] += 1
        correct[pair.phenomenon] += good > bad
for name in sorted(pairs):
    print(f"{correct[name] / pairs[name]:.4f}  {pairs[name]:6,}  {name}")
print(f"{correct.total() / pairs.total():.4f}  {pairs.total():6,}  total")
