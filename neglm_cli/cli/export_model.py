"""`neglm export` with --pytorch, --onnx or --hub: whole models for other tools."""

import os
import re
from typing import TYPE_CHECKING, Any

import typer

from neglm_cli.cli.console import console
from neglm_cli.cli.options import thread_count
from neglm_cli.cli.reading import load_model
from neglm_cli.errors import NeglmError, count_of, shown
from neglm_cli.runs.overwriting import refuse_overwriting

if TYPE_CHECKING:
    from neglm_cli.interop.onnx_files import Measurement
    from neglm_cli.lm.model import LanguageModel
    from neglm_cli.store.container import Stored

LICENSE = "[a-z0-9][a-z0-9.+-]*"  # identifiers of the Hub
MOST_WORDS = 100_000  # of a text that graphs are compared on


def to_pytorch(path: str, folder: str, json: bool) -> None:
    from neglm_cli.interop import pytorch
    from neglm_cli.interop.network import Network

    refuse_overwriting([os.path.join(folder, name) for name in pytorch.FILES], [path])
    console.announce_compiling()
    network = Network.of(load_model(path))
    pytorch.export(network, folder)
    summary = network.summary(folder, "pytorch")
    console.summary(summary, _as_text([folder], summary), folder, json)


def to_onnx(path: str, output: str, int8: bool, test: str | None, json: bool) -> None:
    from neglm_cli.interop import onnx_files
    from neglm_cli.interop.network import Network

    files = onnx_files.files_of(output, int8)
    refuse_overwriting(files, [path, test])
    console.announce_compiling()
    model = load_model(path)
    text = _text_to_compare_on(model, test) if int8 else None
    network = Network.of(model)
    onnx_files.export(network, output, int8)
    compared = _compare(model, [files[0], files[3]], text) if int8 else []
    summary = network.summary(output, "onnx") | {
        "companions": files[1:],
        "compared": [_figures(each) for each in compared],
    }
    lines = [_as_text(files, summary), *_comparison(compared)]
    console.summary(summary, "\n".join(lines), output, json)


def to_hub(path: str, folder: str, license: str | None, test: str | None, json: bool) -> None:
    if license is not None and not re.fullmatch(LICENSE, license):
        raise typer.BadParameter(f"--license {license} is not a name such as mit, apache-2.0 or cc-by-4.0.")
    console.announce_compiling()
    from neglm_cli.interop import hub
    from neglm_cli.lm.model import MODEL
    from neglm_cli.store import container
    from neglm_cli.vectors.vectors import KIND as VECTORS

    files = [os.path.join(folder, name) for name in {*hub.FILES[MODEL], *hub.FILES[VECTORS]}]
    refuse_overwriting(files, [path, test])
    stored = container.read(path, MODEL, VECTORS)
    perplexities = {} if test is None else {os.path.basename(test): _perplexity(stored, test)}
    hub.export(stored, folder, license, perplexities)
    summary = {"output": folder, "format": "hub", "kind": stored.kind, "vocabulary": len(stored.tensors["counts"])}
    words = count_of(len(stored.tensors["counts"]), "word")
    console.summary(summary, f"{shown(folder)}: {stored.kind}, {words}, as hub", folder, json)


def _perplexity(stored: "Stored", test: str) -> float:
    from neglm_cli.api.language_model import LanguageModel
    from neglm_cli.lm.model import MODEL

    if stored.kind != MODEL:
        raise NeglmError(f"{stored.name} contains {stored.kind}, which have no perplexity: leave out --test")
    return LanguageModel(stored).perplexity(test)


def _as_text(files: list[str], summary: dict[str, Any]) -> str:
    size = f"{count_of(summary['vocabulary'], 'word')}, {summary['layers']}×{summary['hidden']}"
    return f"{', '.join(map(shown, files))}: {size}, as {summary['format']}"


# --- 8-bit weights ------------------------------------------------------------------------------------------


def _text_to_compare_on(model: "LanguageModel", test: str | None) -> str | None:
    """Return the text that is named, or the validation text if it is still there."""
    from neglm_cli.text.provenance import corpus_state

    if test is not None:
        return test
    found = [file["path"] for file in model.validation if file["path"] and corpus_state(file) == "there"]
    if not found:
        console.note(
            f"the validation text of {model.name} is not here: name a text with --test to compare perplexities"
        )
    return found[0] if found else None


def _compare(model: "LanguageModel", files: list[str], text: str | None) -> "list[Measurement]":
    import numpy as np

    from neglm_cli.interop.onnx_files import measure
    from neglm_cli.text.corpus import open_corpus
    from neglm_cli.text.encode import Encoder

    if text is None:
        return []
    parts, words = [], 0
    for _, ids in Encoder(model.words).encode_corpus(open_corpus([text]), thread_count(None)):
        parts.append(ids)
        words += len(ids)
        if words >= MOST_WORDS:
            break
    if not words:
        raise NeglmError(f"{shown(text)} has no words: name a text with words in it")
    read = np.concatenate(parts)[:MOST_WORDS].astype(np.int64)
    return [measure(file, read, model.end_of_line, thread_count(None)) for file in files]


def _figures(measured: "Measurement") -> dict[str, Any]:
    return {
        "file": measured.file,
        "bytes": measured.bytes,
        "tokens": measured.tokens,
        "perplexity": round(measured.perplexity, 6),
        "words_per_second": round(measured.words_per_second),
    }


def _comparison(compared: "list[Measurement]") -> list[str]:
    width = max((len(shown(each.file)) for each in compared), default=0)
    return [
        f"  {shown(each.file):<{width}}{each.bytes / 1e6:>10,.1f} MB{each.words_per_second:>10,.0f} words/s"
        f"   perplexity {each.perplexity:,.3f} ({each.perplexity / compared[0].perplexity - 1:+.2%})"
        for each in compared
    ]
