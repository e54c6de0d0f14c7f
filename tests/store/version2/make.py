"""Write the files of this directory, with a neglm that writes format version 2.

    PYTHONPATH=TREE python -m tests.store.version2.make DIRECTORY

TREE is a checkout of commit 548fbfb, or of another one with that version. DIRECTORY gets a text, a file of each kind,
and in expected.json the scores of the text by each model. quantized.safetensors, a kind that came later, is made of
vectors.safetensors by `neglm export --quantize`. Files of a released version are never made again: later
versions must read these.
"""

import json
import sys
from pathlib import Path

from tests.store.version1.make import interrupt, make_files

LM = "--hidden 4 --embedding 5 --k 3 --batch 3 --bptt 6 --init-range 0.5 --init-output 0.5 --no-cache --threads 1"
CHECKPOINT = "--layers 2 --optimizer adam --adam exact --lr 0.01 --valid text.txt --epochs 1000000"


def main(directory: str) -> None:
    scores = make_files(directory, "--max-vocab", LM)
    interrupt("train-lm", "text.txt", *LM.split(), *CHECKPOINT.split(), "-o", "adam")
    Path("expected.json").write_text(json.dumps({"scores": scores}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
