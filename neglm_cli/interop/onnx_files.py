"""ONNX files of a language model: both graphs, their words, and optionally both graphs with 8-bit weights."""

import logging
import math
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from neglm_cli.errors import NeglmError, shown
from neglm_cli.interop.network import Network
from neglm_cli.store.output import writing_all

ENDING = ".onnx"
NO_STATE, INT8, TOKENS = ".no-state", ".int8", ".tokens.txt"
MAX_BYTES = 2**31 - 1  # of a Protocol Buffers message
STEPS = 256  # words of a forward pass


class Measurement(NamedTuple):
    """How a graph did on a text."""

    file: str
    bytes: int
    tokens: int  # of the text
    perplexity: float
    words_per_second: float


def files_of(path: str, int8: bool) -> list[str]:
    """Return the files to write: the stateful graph, the scoring graph, the words, and both graphs with int8."""
    stem = path.removesuffix(ENDING)
    graphs = [f"{stem}{kind}{ENDING}" for kind in ("", NO_STATE, *((INT8, NO_STATE + INT8) if int8 else ()))]
    return [path, graphs[1], stem + TOKENS, *graphs[2:]]


def export(network: Network, path: str, int8: bool) -> None:
    """Write all files, or none."""
    with _packages(int8):
        from neglm_cli.interop.onnx_graph import scoring, stateful

    _check_size(network, path)
    graphs = [stateful(network).SerializeToString(), scoring(network).SerializeToString()]
    tokens = b"".join(b"%b %d\n" % (word, number) for number, word in enumerate(network.words))
    contents = [*graphs, tokens, *(_quantized(graph) for graph in graphs if int8)]
    with writing_all(files_of(path, int8)) as files:
        for file, content in zip(files, contents, strict=True):
            file.write(content)


@contextmanager
def _packages(int8: bool) -> Iterator[None]:
    try:
        if int8:
            import onnxruntime.quantization  # noqa: F401
        yield
    except ImportError as error:
        raise NeglmError(f"this needs the package {error.name}: pip install 'neglm[onnx]'") from error


def _check_size(network: Network, path: str) -> None:
    size = sum(array.nbytes for array in (network.embedding, network.output))
    if size > MAX_BYTES:
        raise NeglmError(
            f"cannot write {shown(path)}: the model's tables have {size:,} bytes, and an ONNX file holds "
            f"{MAX_BYTES:,}; use --pytorch, or a model with fewer words"
        )


def _quantized(graph: bytes) -> bytes:
    """Return a graph whose weights are 8-bit integers; activations are quantized while it runs."""
    from onnx import load_from_string
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory() as directory, _without_warnings():
        target = os.path.join(directory, "int8.onnx")
        quantize_dynamic(load_from_string(graph), target, weight_type=QuantType.QInt8)
        with open(target, "rb") as file:
            return file.read()


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Silence the advice on preprocessing, which these graphs do not need."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def measure(path: str, ids: np.ndarray, end_of_line: int, threads: int) -> Measurement:
    """Score a text, int64 (words,), with a stateful graph in onnxruntime, as `neglm eval` does."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    metadata = session.get_modelmeta().custom_metadata_map
    h = c = np.zeros((int(metadata["num_layers"]), 1, int(metadata["hidden_size"])), np.float32)
    inputs = np.concatenate([[end_of_line], ids[:-1]])
    loss, started = 0.0, time.perf_counter()
    for at in range(0, len(ids), STEPS):
        log_probs, h, c = session.run(None, {"ids": inputs[None, at : at + STEPS], "h": h, "c": c})
        targets = ids[at : at + STEPS]
        loss -= float(log_probs[0, np.arange(len(targets)), targets].sum(dtype=np.float64))
    seconds = time.perf_counter() - started
    return Measurement(path, os.path.getsize(path), len(ids), math.exp(loss / len(ids)), len(ids) / seconds)
