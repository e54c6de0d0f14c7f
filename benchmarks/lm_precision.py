"""Perplexity after an epoch with matrix products in lower precision, in NumPy: `train-lm --precision` without a GPU.

    python benchmarks/lm_precision.py [--data DIR] [--hidden N] [--loss NAME] [--small] [--json FILE] [RUN ...]

RUN is PRECISION or PRECISION:SEED. By default fp32, tf32, bf16, and fp32:2, another seed, to compare with.

Trains the reference (`neglm_cli/lm/reference.py`) on PTB, 2×300 by default, with arrays whose products `a @ b` do what
cuBLAS does: both matrices are rounded to the precision's bits, and sums are in float32. Parameters are float32. The
scores of noise words are no products there either; biases are added unrounded, while on a GPU they are a row of a
product. The validation text is scored with the trained parameters by the CPU's kernels. One epoch of 2×300 takes about
ten minutes of one core.
"""

import json
import os
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # so that CPU time means something

import numpy as np
from scipy.sparse import csr_matrix
from side_by_side import NEGLM, option_parser, output, text_of, workplace

from neglm_cli.lm.cpu.device import CpuDevice
from neglm_cli.lm.device import Tensors
from neglm_cli.lm.parameters import Shape, initial_parameters, zero_parameters
from neglm_cli.lm.reference import Model
from neglm_cli.lm.reference_device import ReferenceDevice
from neglm_cli.lm.scoring import CHUNK, Reader
from neglm_cli.lm.trainer import Trainer
from neglm_cli.objective.losses import initial_log_z
from neglm_cli.settings.progress import Progress
from neglm_cli.settings.train_lm import Settings
from neglm_cli.text.encode import Encoder
from neglm_cli.text.encoded import InMemoryCorpus
from neglm_cli.text.vocabulary import Vocabulary

RUNS = ("fp32", "tf32", "bf16", "fp32:2")
MANTISSA_BITS = {"fp32": 23, "tf32": 10, "bf16": 7}
WORDS = "10000"
SMALL = 8_000  # words of each text: too few to mean anything


def rounded(values: np.ndarray, bits: int) -> np.ndarray:
    """Round to float32 with so many bits of the mantissa, ties to even."""
    values = np.ascontiguousarray(values, np.float32)
    if bits == 23:
        return values
    raw, dropped = values.view(np.uint32), np.uint32(23 - bits)
    half = np.uint32((1 << (22 - bits)) - 1) + (raw >> dropped & np.uint32(1))
    return ((raw + half) >> dropped << dropped).view(np.float32)


class RoundingArray(np.ndarray):
    """An array whose products round their operands, and are arrays like it."""

    bits = 23

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [each.view(np.ndarray) if isinstance(each, RoundingArray) else each for each in inputs]
        if ufunc is np.matmul:
            return np.matmul(*(rounded(each, self.bits) for each in plain)).view(type(self))
        if ufunc is np.add and method == "at":
            add_rows(*plain)
            return None
        if "out" in options:
            options["out"] = tuple(each.view(np.ndarray) for each in options["out"])
        result = getattr(ufunc, method)(*plain, **options)
        return result.view(type(self)) if isinstance(result, np.ndarray) else result

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        if function is np.einsum and np.ndim(arguments[1]) < 4 and np.ndim(arguments[2]) < 4:  # a product of matrices
            operands = [rounded(each, self.bits) for each in arguments[1:]]
            return np.einsum(arguments[0], *operands, optimize=True).view(type(self))
        return super().__array_function__(function, types, arguments, options)


def add_rows(target: np.ndarray, rows: np.ndarray, values: np.ndarray) -> None:
    """Add values to rows of a table: np.add.at by a product with a sparse matrix, which is faster."""
    touched, slots = np.unique(rows.reshape(-1), return_inverse=True)
    sums = csr_matrix((np.ones(slots.size, np.float32), (slots, np.arange(slots.size))))
    target[touched] += sums @ values.reshape(slots.size, *target.shape[1:])


class RoundedReference(ReferenceDevice):
    """The reference with float32 parameters and rounded products."""

    def prepare_training(self) -> None:
        kind = type("Rounded", (RoundingArray,), {"bits": MANTISSA_BITS[self.settings.precision]})

        def converted(array: np.ndarray) -> np.ndarray:
            return array.astype(np.float32).view(kind)

        made: dict[str, Any] = {}
        for field in fields(Model):
            found = getattr(self.model, field.name)
            made[field.name] = [*map(converted, found)] if isinstance(found, list) else converted(found)
        self.model = Model(**made)
        super().prepare_training()

    def parameters(self) -> Tensors:
        return {name: np.asarray(tensor) for name, tensor in super().parameters().items()}


def perplexity(tensors: Tensors, settings: Settings, words: Vocabulary, text: np.ndarray) -> float:
    """Score a text with trained parameters."""
    parameters = zero_parameters(Shape.of(len(words), settings))
    for name, array in parameters.tensors().items():
        array[...] = tensors[name]
    encoder = Encoder(words)
    device = CpuDevice(parameters, settings, words.counts, encoder.end_of_line)
    try:
        reader = Reader(device.scorer(CHUNK), words.counts, encoder.unknown, encoder.end_of_line)
        reader.read(text)
        return reader.tally.perplexity
    finally:
        device.close()


def train(settings: Settings, words: Vocabulary, text: np.ndarray) -> Tensors:
    """Train for one epoch."""
    parameters = initial_parameters(Shape.of(len(words), settings), settings)
    device = RoundedReference(parameters, settings, words.counts, Encoder(words).end_of_line)
    device.prepare_training()
    for _ in Trainer(InMemoryCorpus(text), device, settings, Progress()).run():
        pass
    return device.parameters()


def main() -> None:
    parser = option_parser(__doc__, rounds=1)
    parser.add_argument("runs", nargs="*", default=RUNS, metavar="RUN", help="PRECISION or PRECISION:SEED")
    parser.add_argument("--hidden", type=int, default=300)
    parser.add_argument("--loss", default="neglm", help="softmax: all products of the output layer are rounded, too")
    options = parser.parse_args()
    limit = SMALL if options.small else None
    texts = [text_of(options, "ptb", f"ptb.{part}.txt") for part in ("train", "valid")]
    with workplace():
        Path("train.txt").write_bytes(texts[0])
        output(NEGLM, "vocab", "train.txt", "--quiet", "--max-vocab", WORDS)
        words = Vocabulary.load("vocab.safetensors")
        train_text, valid_text = (Encoder(words).encode(text)[:limit] for text in texts)
        found: dict[str, float] = {}
        for run in options.runs:
            precision, _, seed = run.partition(":")
            settings = Settings(
                precision=precision, seed=int(seed or 1), hidden=options.hidden, embedding=options.hidden,
                loss=options.loss, log_z=initial_log_z(options.loss, Settings.k), epochs=1, threads=1,
            )  # fmt: skip
            started = time.process_time()
            tensors = train(settings, words, train_text)
            minutes = (time.process_time() - started) / 60
            found[run] = perplexity(tensors, settings, words, valid_text)
            change = found[run] / found[options.runs[0]] - 1
            print(f"{run:8}{found[run]:10.3f}{change:+10.3%}  {minutes:.1f} minutes of CPU time", flush=True)
            if options.json:
                result = {"run": run, "hidden": options.hidden, "loss": options.loss, "perplexity": found[run]}
                with open(options.json, "a", encoding="utf-8") as file:
                    file.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
