"""Mutated files, signed again with a valid checksum: the worst that an untrusted program can write.

    python -m tests.store.mutants --count 100000 --seed 1

Each mutant is passed to the commands that read its kind. None may crash, raise an unexpected error, take too much
memory or hang; and other commands must be able to use what `info` accepts. Mutants have numbers: `--only NUMBER`
repeats one.
"""

import argparse
import json
import os
import resource
import select
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import xxhash

from neglm_cli.cli.main import run
from neglm_cli.store import version1
from tests.store.samples import CORPUS, parse, write_samples
from tests.warm_parent import Kernels, import_all

MEMORY = 3 << 30  # bytes that a command may allocate
SECONDS = 300  # timeout of a mutant
MUTANTS_PER_PROCESS = 50
TYPES = {"uint8": "U8", "int32": "I32", "int64": "I64", "float32": "F32", "float64": "F64"}

VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 7, 10**7, 10**9, 2**31, 2**53, 2**62, 2**63 - 1, 2**63, -(2**63), 10**30, 0.5, -0.5,
    1e300, 1e-300, "", "x", "1", "\0", "\ud800", "\udc80", "\x1b[31m", "neglm", "softmax", "adam", "../", "/", [], {},
    [[]], {"": None}, [0], ["x"], {"path": None}, [1.5, 2.5],
]  # fmt: skip
TEXTS = [
    "", "x", "0", "1", "2", "-1", "+1", " 1", "1_0", "١", "1e3", "0.5", "100000000000", "9" * 25, "9" * 5000, "null",
    "true", "NaN", "Infinity", "-Infinity", "1e999", "[]", "{}", '{"a":1,"a":2}', "[" * 100_000, '{"a":' * 50_000, "{",
    "\0", "\ud800", "softmax", "nce", "neg", "neglm", "vocabulary", "vectors", "language model", "checkpoint",
    "encoded corpus", '[{"path":null}]', "0" * 32, "neglm-b", "unknown", "cond",
]  # fmt: skip
NUMBERS: dict[str, list[float]] = {
    "i": [0, 1, 2, -1, 2**31 - 1, -(2**31), 2**62, 2**63 - 1, -(2**63)],
    "u": [0, 9, 10, 32, 255, ord("<"), ord("a")],
    "f": [0.0, 1.0, -1.0, 1e14, 1e30, -3.4e38, float("nan"), float("inf"), -float("inf"), 1e-45],
}

Metadata = dict[str, Any]
Tensors = dict[str, np.ndarray]


# --- mutations ----------------------------------------------------------------------------------------


def sign(metadata: Metadata, tensors: Tensors, random: Random | None = None) -> bytes:
    """Return a file with a valid checksum; with `random`, its header may not match its contents."""
    header: dict[str, Any] = {"__metadata__": metadata | {"checksum": "0" * 32}}
    order = sorted(tensors, key=lambda name: -tensors[name].itemsize)
    end = 0
    for name in order:
        start, end = end, end + tensors[name].nbytes
        dtype = TYPES[str(tensors[name].dtype)]
        header[name] = {"dtype": dtype, "shape": list(tensors[name].shape), "data_offsets": [start, end]}
    if random:
        entry = header[random.choice(order)]
        part = random.choice(list(entry))
        if part == "dtype" or random.random() < 0.3:
            entry[part] = random.choice(VALUES)
        else:
            entry[part][random.randrange(len(entry[part]))] = random.choice(VALUES)
    text = json.dumps(header, separators=(",", ":")).encode()
    raw = len(text).to_bytes(8, "little") + text
    data = b"".join(tensors[name].tobytes() for name in order)
    checksum = xxhash.xxh3_128_hexdigest(raw + xxhash.xxh3_128_digest(data))
    return raw.replace(b'"checksum":"' + b"0" * 32, b'"checksum":"' + checksum.encode(), 1) + data


def change_field(random: Random, metadata: Metadata, tensors: Tensors) -> None:
    name = random.choice(list(metadata))
    if metadata[name].lstrip("-").isdigit() and random.random() < 0.5:
        metadata[name] = str(int(metadata[name]) + random.choice([-1, 1, 2]))
    else:
        metadata[name] = random.choice(TEXTS)


def change_json(random: Random, metadata: Metadata, tensors: Tensors) -> None:
    """Change something inside one of the fields that are JSON."""
    name = random.choice([name for name, text in metadata.items() if text[:1] in "{["])
    root: Any = {"": json.loads(metadata[name])}
    nodes: list[tuple[Any, Any]] = []

    def collect(node: Any) -> None:
        for key in node if isinstance(node, dict) else range(len(node)):
            nodes.append((node, key))
            if isinstance(node[key], (dict, list)):
                collect(node[key])

    collect(root)
    node, key = random.choice(nodes)
    action = random.random()
    if action < 0.6:
        node[key] = random.choice(VALUES)
    elif action < 0.75 and isinstance(node, dict) and key:
        del node[key]
    elif action < 0.9 and type(node[key]) in (int, float):
        node[key] += random.choice([-1, 1, 1000])
    elif isinstance(node[key], dict):
        node[key][random.choice(("x", "", "path", "k"))] = random.choice(VALUES)
    elif isinstance(node[key], list):
        node[key].append(random.choice(node[key] or VALUES))
    metadata[name] = json.dumps(root.get("", 0))


def lose_field(random: Random, metadata: Metadata, tensors: Tensors) -> None:
    del metadata[random.choice(list(metadata))]


def retype_field(random: Random, metadata: Metadata, tensors: Tensors) -> None:
    """Set metadata to something other than a string."""
    metadata[random.choice(list(metadata))] = random.choice(VALUES)


def change_numbers(random: Random, metadata: Metadata, tensors: Tensors) -> None:
    name = random.choice([name for name, tensor in tensors.items() if tensor.size])
    flat = tensors[name].reshape(-1)
    values = NUMBERS[flat.dtype.kind]
    with np.errstate(all="ignore"):
        for _ in range(random.choice([1, 1, 2, 5])):
            index = random.choice([0, flat.size - 1, random.randrange(flat.size)])
            action = random.random()
            if action < 0.6:
                flat[index] = np.array(random.choice(values)).astype(flat.dtype)
            elif action < 0.8:
                flat[index] = flat[random.randrange(flat.size)]
            elif action < 0.9:
                flat[index:] = np.array(random.choice(values)).astype(flat.dtype)
            else:
                flat[index:] = flat[index:][::-1].copy()


def change_shape(random: Random, metadata: Metadata, tensors: Tensors) -> None:
    name = random.choice(list(tensors))
    tensor = tensors[name]
    axis = random.randrange(tensor.ndim)
    changes: list[Callable[[], np.ndarray]] = [
        lambda: tensor.T,
        lambda: tensor[None],
        lambda: tensor.reshape(-1),
        lambda: tensor[:0],
        lambda: np.delete(tensor, -1, axis) if tensor.shape[axis] else tensor[None],
        lambda: np.repeat(tensor, 2, axis),
        lambda: np.concatenate([tensor, tensor[-1:]]),
        lambda: tensor.astype(random.choice(["uint8", "int32", "int64", "float32", "float64"])),
    ]
    with np.errstate(all="ignore"):
        tensors[name] = np.ascontiguousarray(random.choice(changes)())


def change_names(random: Random, metadata: Metadata, tensors: Tensors) -> None:
    name = random.choice(list(tensors))
    tensor = tensors.pop(name)
    if random.random() < 0.7:
        other = random.choice([*tensors, "x", "", "lstm.2.w_ih", "__metadata__ ", "\x1b[31m"])
        tensors[other] = tensor


def change_words(random: Random, metadata: Metadata, tensors: Tensors) -> None:
    """Replace a word by another, or drop or repeat a row of all tensors: otherwise the file stays valid."""
    if "offsets" not in tensors:
        return change_numbers(random, metadata, tensors)
    words, offsets = tensors["words"].tobytes(), tensors["offsets"].tolist()
    listed = [words[a:b] for a, b in pairwise(offsets)]
    index, other = random.randrange(len(listed)), random.randrange(len(listed))
    listed[index] = random.choice([listed[other], b"new", b"a b", b"", b"\n", b"<unk>", b"\xff\x00", b"x" * 5000])
    if random.random() < 0.5:
        size = len(listed)
        rows = [row for row in range(size) if row != index] + ([other] if random.random() < 0.3 else [])
        listed = [listed[row] for row in rows]
        for name, tensor in tensors.items():
            if name not in ("words", "offsets") and tensor.shape[:1] == (size,):
                tensors[name] = tensor[rows]
    tensors["words"] = np.frombuffer(b"".join(listed), np.uint8).copy()
    tensors["offsets"] = np.cumsum([0, *map(len, listed)], dtype=np.int64)
    return None


def wrap_offsets(random: Random, metadata: Metadata, tensors: Tensors) -> None:
    """Write offsets that ascend only with 64-bit wraparound."""
    offsets = tensors[random.choice(["offsets", "context_offsets"]) if "context_vectors" in tensors else "offsets"]
    first = random.randrange(1, len(offsets) - 4)
    offsets[first : first + 3] = 2**62, -(2**63), random.choice([-(2**62), -1, -(2**40)])


MUTATIONS = [
    change_field, change_field, change_json, change_json, change_json, lose_field, retype_field, change_numbers,
    change_numbers, change_shape, change_shape, change_names, change_words, change_words, wrap_offsets,
]  # fmt: skip


def mutant(samples: dict[str, bytes], seed: int, number: int) -> tuple[str, bytes, str]:
    """Make a mutant. Return its sample, its contents, and what was changed."""
    random = Random(f"{seed} {number}")
    kind = random.choice(list(samples))
    metadata, tensors = parse(samples[kind])
    done = []
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        mutation = random.choice(MUTATIONS)
        with suppress(ArithmeticError, LookupError, ValueError, TypeError, AttributeError, RecursionError):
            # it may not apply after another one
            mutation(random, metadata, tensors)
            done.append(mutation.__name__)
    lying = bool(tensors) and random.random() < 0.1
    return kind, sign(metadata, tensors, random if lying else None), " ".join([*done, *["lying header"] * lying])


# --- commands -----------------------------------------------------------------------------------------

TRAIN_LM = ("--hidden", "3", "--k", "2", "--batch", "3", "--bptt", "5", "--epochs", "1", "--no-cache", "--threads", "1")
RESUME = ("--resume", "--no-cache", "--threads", "1")
INFO = [("info", "file"), ("info", "file", "--json"), ("info", "file", "--words")]
OF_VECTORS = [
    ("nearest", "w1", "--vectors", "file", "--top", "3"),
    ("export", "file", "-o", "out.txt"),
    ("export", "file", "-o", "out.npy"),
]
COMMANDS: dict[str, list[tuple[str, ...]]] = {
    "vocabulary": [
        ("vocab", "--merge", "file", "good", "-o", "out"),
        ("embed", CORPUS, "--vocab", "file", "--size", "3", "--iter", "1", "--no-cache", "--threads", "1", "-o", "out"),
        ("train-lm", CORPUS, "--vocab", "file", *TRAIN_LM, "--output", "out"),
    ],
    "encoded corpus": [],
    "vectors": [*OF_VECTORS, ("embed", *RESUME, "-o", "resumed"), ("pmi", "file", CORPUS)],
    "quantized vectors": [*OF_VECTORS, ("vectors", "w1", "unseen", "--vectors", "file")],
    "language model": [
        *OF_VECTORS,
        ("score", "file", CORPUS),
        ("eval", "file", "--test", CORPUS, "--threads", "1"),
        ("generate", "file", "--max-words", "5"),
    ],
    "checkpoint": [
        ("eval", "file", "--test", CORPUS, "--threads", "1"),
        ("train-lm", *RESUME, "--epochs", "2", "--output", "resumed"),
    ],
}
# Errors that a valid file may cause: it does not belong to the text, lacks a word, or cannot be trained.
FAIR = (
    "has no vocabulary", "not in the vocabulary", "the corpus of", "was cut", "is not a checkpoint of `neglm embed`",
    "training diverges", "does not belong to this corpus", "was training on", "already trained",
    "has no record of its corpus", "was a pipe", "the text became shorter",
    "the text was truncated", "is not among them", "there is nothing to learn", "has no context", "counts add up",
    "has no pair", "too large for a corpus", "would be equal", "are the same", "occurs twice", "words are not in",
    "too high; use a smaller", "no word of", "there is no tab",
)  # fmt: skip


class BadError(Exception):
    """An error of neglm."""


@contextmanager
def captured() -> Iterator[Any]:
    """Redirect output to a file, inside the block."""
    with tempfile.TemporaryFile() as file:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
        yield file


def command(file: Any, arguments: tuple[str, ...]) -> tuple[int, str]:
    """Run a command. Return its exit code and output."""
    os.ftruncate(file.fileno(), 0)
    os.lseek(file.fileno(), 0, os.SEEK_SET)
    code = run([*arguments])
    sys.stdout.flush()
    sys.stderr.flush()
    text = os.pread(file.fileno(), 1 << 20, 0).decode(errors="backslashreplace")
    if code not in (0, 1) or "unexpected" in text or "Traceback" in text or "not enough memory" in text:
        raise BadError(f"neglm {' '.join(arguments)}: exit {code}: {text[-500:]}")
    if code == 1 and not text.rstrip().splitlines()[-1].startswith("neglm: "):
        raise BadError(f"neglm {' '.join(arguments)} ends without a sentence: {text[-500:]}")
    return code, text


def try_out(file: Any, contents: bytes, samples: dict[str, bytes]) -> str:
    """Return whether a mutant is accepted or refused. Raise `BadError` if neglm does neither well."""
    for name in ("file", "resumed.partial"):
        Path(name).write_bytes(contents)
    for name in ("out", "resumed", "out.txt", "out.npy", "out.partial"):
        Path(name).unlink(missing_ok=True)
    code, text = command(file, INFO[0])
    if code == 1:
        return "refused"
    metadata, _ = parse(contents)
    kind = version1.KINDS.get(metadata["kind"], metadata["kind"])
    for arguments in [*INFO[1:], *COMMANDS[kind]]:
        code, text = command(file, arguments)
        if code == 1 and not any(reason in text for reason in FAIR):
            raise BadError(f"accepted, but neglm {' '.join(arguments)} says: {text[-500:]}")
        if code == 0 and arguments[0] in ("score", "eval", "nearest") and "nan" in text:
            raise BadError(f"neglm {' '.join(arguments)} finds NaN: {text[-500:]}")
    return "accepted"


# --- processes ----------------------------------------------------------------------------------------


def in_child(samples: dict[str, bytes], seed: int, numbers: list[int]) -> list[dict[str, Any]]:
    """Try mutants in a process that may crash. Return their results; the last one may be a crash."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        resource.setrlimit(resource.RLIMIT_AS, (_memory() + MEMORY,) * 2)
        with captured() as file:
            for number in numbers:
                kind, contents, changed = mutant(samples, seed, number)
                result = {"number": number, "kind": kind, "changed": changed, "bad": ""}
                try:
                    result["outcome"] = try_out(file, contents, samples)
                except BadError as error:
                    result |= {"outcome": "bad", "bad": str(error)}
                os.write(theirs, (json.dumps(result) + "\n").encode())
        os._exit(0)
    os.close(theirs)
    received, end = b"", "crashed"
    while True:
        if not select.select([ours], [], [], SECONDS)[0]:
            end = "did not end"
            os.kill(child, signal.SIGKILL)
        if not (more := os.read(ours, 1 << 16)):
            break
        received += more
    status = os.waitpid(child, 0)[1]
    results = [json.loads(line) for line in received.splitlines()]
    if len(results) < len(numbers):
        number = numbers[len(results)]
        kind, _, changed = mutant(samples, seed, number)
        end = f"{end}, exit {os.waitstatus_to_exitcode(status)}"
        results.append({"number": number, "kind": kind, "changed": changed, "outcome": "bad", "bad": end})
    os.close(ours)
    return results


def _memory() -> int:
    """Return the size of this process's address space in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def run_all(seed: int, numbers: list[int], report: Callable[[str], None] = lambda line: None) -> list[dict[str, Any]]:
    """Try mutants in a temporary directory. Return their results."""
    home = os.getcwd()
    with tempfile.TemporaryDirectory() as directory:
        try:
            os.chdir(directory)
            samples = write_samples(Path(directory))
            Path("good").write_bytes(samples["vocabulary"])
            import_all()
            for sample in samples.values():  # compile all kernels, then load them here
                child = os.fork()
                if child == 0:
                    with captured() as file:
                        try_out(file, sample, samples)
                    os._exit(0)
                assert os.waitpid(child, 0)[1] == 0, "a sample cannot be used"
            Kernels().load_new()
            results: list[dict[str, Any]] = []
            started = time.monotonic()
            while len(results) < len(numbers):
                found = in_child(samples, seed, numbers[len(results) : len(results) + MUTANTS_PER_PROCESS])
                results += found
                for result in found:
                    if result["outcome"] == "bad":
                        report(json.dumps(result))
                bad = sum(result["outcome"] == "bad" for result in results)
                report(f"{len(results):,} mutants, {bad} bad, {time.monotonic() - started:.0f} s")
            return results
        finally:
            os.chdir(home)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the number of one mutant")
    given = parser.parse_args()
    numbers = list(range(given.count)) if given.only is None else [given.only]
    results = run_all(given.seed, numbers, lambda line: print(line, file=sys.stderr))
    bad = [result for result in results if result["outcome"] == "bad"]
    print(json.dumps(Counter(f"{result['kind']}: {result['outcome']}" for result in results), indent=2, sort_keys=True))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
