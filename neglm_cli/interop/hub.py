"""Folders for the Hugging Face Hub: a neglm file with a description that other packages understand.

`model.safetensors` is a neglm file, which all commands read when they are given the folder. Beside it are
`config.json`, `vocab.json` and the card `README.md`; for language models `tokenizer.json`; for vectors the files of
sentence-transformers' StaticEmbedding, which model2vec reads, too. staticvectors reads the neglm file itself.
"""

import json
import os
from typing import Any, BinaryIO

import numpy as np

from neglm_cli import __version__
from neglm_cli.interop import card
from neglm_cli.interop.tokenizer import tokenizer, vocabulary
from neglm_cli.lm.model import MODEL, LanguageModel
from neglm_cli.store.container import Stored, write_to
from neglm_cli.store.folder import FILE
from neglm_cli.store.output import writing_folder
from neglm_cli.store.schema import COMMON_FIELDS
from neglm_cli.store.state_dict import write_state_dict
from neglm_cli.text.tokens import UNKNOWN
from neglm_cli.vectors.vectors import KIND as VECTORS
from neglm_cli.vectors.vectors import Vectors

CONFIG, VOCABULARY, CARD, TOKENIZER = "config.json", "vocab.json", "README.md", "tokenizer.json"
MODULES, SENTENCE_TRANSFORMERS = "modules.json", "config_sentence_transformers.json"
STATIC = "0_StaticEmbedding"
FILES = {
    MODEL: (FILE, CONFIG, VOCABULARY, CARD, TOKENIZER),
    VECTORS: (
        FILE, CONFIG, VOCABULARY, CARD, MODULES, SENTENCE_TRANSFORMERS, f"{STATIC}/{FILE}", f"{STATIC}/{TOKENIZER}"
    ),
}  # fmt: skip
UNKNOWN_LICENSE = "unknown"


def export(stored: Stored, folder: str, license: str | None, perplexities: dict[str, float]) -> None:
    """Write the folder of a language model or of vectors. perplexities: of test texts, by name, for the card."""
    if stored.kind == MODEL:
        model = LanguageModel.from_stored(stored)
        contents = _language_model(model, folder, license, perplexities)
    else:
        vectors = Vectors.from_stored(stored)
        contents = _vectors(vectors, folder, license)
    with writing_folder(folder, FILES[stored.kind]) as files:
        for name, file in zip(FILES[stored.kind], files, strict=True):
            if name == FILE:
                _write_neglm_file(file, stored)
            elif name == f"{STATIC}/{FILE}":
                write_state_dict(file, {"embedding.weight": _with_unknown(vectors)})
            else:
                file.write(_encoded(contents[name]))


def _write_neglm_file(file: BinaryIO, stored: Stored) -> None:
    """Write the file without the directories of its texts, which are not for publication."""
    common = [field.name for field in COMMON_FIELDS]
    fields = {name: value for name, value in stored.fields.items() if name not in common}
    for name in ("corpus", "validation"):
        if name in fields:
            fields[name] = [each | {"path": _file_name(each)} for each in fields[name]]
    write_to(file, stored.kind, fields, stored.tensors)


def _file_name(file: dict[str, Any]) -> str | None:
    return None if file["path"] is None else os.path.basename(file["path"])


def _encoded(content: Any) -> bytes:
    return content.encode() if isinstance(content, str) else json.dumps(content, indent=2).encode() + b"\n"


# --- language models ----------------------------------------------------------------------------------------


def _language_model(
    model: LanguageModel, folder: str, license: str | None, perplexities: dict[str, float]
) -> dict[str, Any]:
    ids, settings = vocabulary(model.words), model.settings
    config = {
        "model_type": "neglm",
        "neglm_version": __version__,
        "vocab_size": len(model.words),
        "embedding_size": settings.embedding,
        "hidden_size": settings.hidden,
        "num_layers": settings.layers,
        "loss": settings.loss,
        "k": settings.k,
        "noise_alpha": settings.noise_alpha,
        "log_z": settings.log_z,
        "reset_at_eos": settings.reset_at_eos,
        "bos_token_id": model.end_of_line,
        "eos_token_id": model.end_of_line,
        "unk_token_id": model.unknown,
    }
    front = _front(license, "text-generation", ["neglm", "language-model", "lstm"])
    description = (
        f"A word-level LSTM language model ({len(model.words):,} words, {settings.layers}×{settings.hidden}, loss "
        f"`{settings.loss}`), trained by `neglm train-lm`."
    )
    progress = model.progress
    results = [
        (f"validation, epoch {epoch}", f"{value:.2f}") for epoch, value in enumerate(progress.valid_perplexities, 1)
    ]
    results += [(name, f"{value:.2f}") for name, value in perplexities.items()]
    sections = {
        "Perplexity": card.table(("text", "perplexity"), results),
        "Data": _data(model.files, model.validation),
        "Options": card.table(("option", "value"), settings.stored().items()),
    }
    text = card.card(_name(folder), front, description, card.LANGUAGE_MODEL_USE, sections)
    return {CONFIG: config, VOCABULARY: ids, TOKENIZER: tokenizer(ids, ends_of_line=True), CARD: text}


# --- vectors ------------------------------------------------------------------------------------------------


def _vectors(vectors: Vectors, folder: str, license: str | None) -> dict[str, Any]:
    ids = vocabulary(vectors.words)
    with_unknown = ids if UNKNOWN.decode() in ids else ids | {UNKNOWN.decode(): len(ids)}
    module = {"idx": 0, "name": "0", "path": STATIC, "type": "sentence_transformers.models.StaticEmbedding"}
    config = {
        "model_type": "staticvectors",
        "storage": "safetensors",
        "source": "neglm",
        "neglm_version": __version__,
        "total": len(vectors.words),
        "dim": vectors.size,
        "objective": vectors.objective,
    }
    tags = ["neglm", "word2vec", "staticvectors", "model2vec", "sentence-transformers"]
    front = _front(license, "feature-extraction", tags)
    description = f"Word vectors ({len(vectors.words):,} words, {vectors.size} dimensions), written by neglm."
    sections = {
        "Data": _data(vectors.files, []),
        "Options": card.table(("option", "value"), vectors.arguments.items()),
    }
    return {
        CONFIG: config,
        VOCABULARY: {"tokens": ids},
        MODULES: [module],
        SENTENCE_TRANSFORMERS: {"prompts": {}, "default_prompt_name": None, "similarity_fn_name": "cosine"},
        f"{STATIC}/{TOKENIZER}": tokenizer(with_unknown, ends_of_line=False),
        CARD: card.card(_name(folder), front, description, card.VECTORS_USE, sections),
    }


def _with_unknown(vectors: Vectors) -> np.ndarray:
    """Return the vectors, with zeros for `<unk>` if there is none: tokenizers need one."""
    if vectors.words.id(UNKNOWN) >= 0:
        return vectors.vectors
    return np.concatenate([vectors.vectors, np.zeros((1, vectors.size), np.float32)])


# --- both ---------------------------------------------------------------------------------------------------


def _name(folder: str) -> str:
    return os.path.basename(os.path.abspath(folder))


def _front(license: str | None, pipeline: str, tags: list[str]) -> dict[str, Any]:
    return {"license": license or UNKNOWN_LICENSE, "library_name": "neglm", "pipeline_tag": pipeline, "tags": tags}


def _data(corpus: list[dict[str, Any]], validation: list[dict[str, Any]]) -> list[str]:
    rows = [
        (purpose, _file_name(file) or "a pipe", f"{file['size']:,}", f"`{file['fingerprint']}`")
        for purpose, files in (("training", corpus), ("validation", validation))
        for file in files
    ]
    return card.table(("text", "file", "bytes", "fingerprint"), rows)
