"""A small file of each kind, and what commands need to use it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from neglm_cli.lm.job import Job as LanguageModelJob
from neglm_cli.lm.job import Texts, new_device
from neglm_cli.settings.embed import Settings as EmbedSettings
from neglm_cli.settings.progress import Progress
from neglm_cli.settings.train_lm import Settings as LanguageModelSettings
from neglm_cli.sgns.job import text_job
from neglm_cli.sgns.textsource import words_with_vectors
from neglm_cli.text.corpus import open_corpus
from neglm_cli.text.encoded import open_encoded
from neglm_cli.vectors.quantized import quantized_copy
from neglm_cli.vectors.vectors import Vectors, write_quantized
from tests.sgns.making import some_text
from tests.text.making import vocabulary_of

VERSION1 = Path(__file__).parent / "version1"
CORPUS = "0"  # name of the first text of `vocabulary_of`
SETTINGS: dict[str, Any] = {
    "k": 3, "hidden": 4, "embedding": 5, "layers": 2, "batch": 3, "bptt": 6, "epochs": 2, "init_output": 0.5,
}  # fmt: skip


def write_samples(directory: Path) -> dict[str, bytes]:
    """Write samples. Return their contents by kind; trainings can be resumed in a directory with the corpus."""
    vocabulary = vocabulary_of(some_text(400, vocabulary=30), directory=directory)
    corpus, path = open_corpus([str(directory / CORPUS)]), directory / "file"
    found = {}

    def keep(kind: str) -> None:
        found[kind] = path.read_bytes()

    vocabulary.save(str(path))
    keep("vocabulary")
    open_encoded(corpus, vocabulary, 1, directory / "cache", lambda sentence: None)
    (copy,) = (directory / "cache").iterdir()
    copy.rename(path)
    keep("encoded corpus")
    words = words_with_vectors(vocabulary, 2)
    embedding = text_job(
        words, corpus, vocabulary.files, EmbedSettings(size=6, k=3, min_count=2, epochs=1), None, print
    )
    embedding.save(str(path))
    keep("vectors")
    given = EmbedSettings(size=6, k=3, min_count=2, epochs=1, subwords="2-3", buckets=20)
    text_job(words, corpus, vocabulary.files, given, None, print).save(str(path))
    keep("vectors with subwords")
    given = replace(given, floret=True)
    text_job(words, corpus, vocabulary.files, given, None, print).save(str(path))
    keep("vectors with floret")
    write_quantized(str(path), quantized_copy(Vectors.load(str(path)), 4), 4)
    keep("quantized vectors")
    for optimizer, loss in (("adam", "neglm"), ("adagrad", "nce")):
        settings = LanguageModelSettings(**SETTINGS, optimizer=optimizer, loss=loss, lr=0.01)
        encoded = open_encoded(corpus, vocabulary, 1, None, print)
        device = new_device(vocabulary, settings)
        job = LanguageModelJob(Texts(vocabulary, encoded, vocabulary.files), settings, device, Progress())
        for _ in zip(range(3), job.trainer.run(), strict=False):
            pass
        for _ in job.trainer.wait():
            pass
        job.save_checkpoint(str(path))
        keep(f"checkpoint {optimizer}")
        job.save_model(str(path))
        keep(f"language model {loss}")
        device.close()
    for name in ("adam.partial", "neglm.safetensors", "vectors.safetensors", "vocabulary.safetensors"):
        found[f"version 1 {name}"] = (VERSION1 / name).read_bytes()
    (directory / "text.txt").write_bytes((VERSION1 / "text.txt").read_bytes())
    return found


def parse(contents: bytes) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """Return metadata and tensors, without neglm's reader."""
    length = int.from_bytes(contents[:8], "little")
    header, data = json.loads(contents[8 : 8 + length]), contents[8 + length :]
    metadata = header.pop("__metadata__")
    types = {"U8": "uint8", "I32": "int32", "I64": "int64", "F32": "float32"}
    tensors = {
        name: np.frombuffer(data[slice(*entry["data_offsets"])], types[entry["dtype"]]).reshape(entry["shape"]).copy()
        for name, entry in header.items()
    }
    return metadata, tensors
