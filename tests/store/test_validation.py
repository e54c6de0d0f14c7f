"""Invalid files, all with a valid checksum, and the errors when they are opened."""

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neglm_cli.errors import NeglmError
from neglm_cli.settings.declare import declared
from neglm_cli.settings.embed import Settings as EmbedSettings
from neglm_cli.settings.losses import LOSSES
from neglm_cli.settings.progress import Progress
from neglm_cli.settings.train_lm import Settings as LanguageModelSettings
from neglm_cli.store import container, options, schema
from neglm_cli.store.rules import SchemaError
from neglm_cli.store.wordlists import REQUIRED, check_words
from neglm_cli.text.tokens import END_OF_LINE, UNKNOWN
from tests.store.mutants import Metadata, Tensors, sign
from tests.store.samples import parse, write_samples

VOCABULARY, VECTORS, MODEL, STATE = "vocabulary", "vectors", "language model neglm", "checkpoint adam"
SUBWORDS, FLORET, QUANTIZED = "vectors with subwords", "vectors with floret", "quantized vectors"
Change = Callable[[Metadata, Tensors], object]


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return write_samples(tmp_path_factory.mktemp("samples"))


def refused(samples: dict[str, bytes], kind: str, change: Change) -> str:
    return refusal(samples[kind], change)


def refusal(sample: bytes, change: Change) -> str:
    """Change a file, sign it again, and return the sentence that refuses it."""
    metadata, tensors = parse(sample)
    change(metadata, tensors)
    Path("file").write_bytes(sign(metadata, tensors))
    with pytest.raises(NeglmError, match="^file") as error:
        container.read("file")
    return str(error.value)


def put(field: str, value: str) -> Change:
    return lambda metadata, tensors: metadata.__setitem__(field, value)


def put_inside(field: str, **values: Any) -> Change:
    return lambda metadata, tensors: metadata.__setitem__(field, json.dumps(json.loads(metadata[field]) | values))


def put_number(tensor: str, index: Any, value: float) -> Change:
    return lambda metadata, tensors: tensors[tensor].__setitem__(index, value)


def replace(tensor: str, change: Callable[[np.ndarray], np.ndarray]) -> Change:
    return lambda metadata, tensors: tensors.__setitem__(tensor, np.ascontiguousarray(change(tensors[tensor])))


def other_word(word: bytes, by: bytes) -> Change:
    def change(metadata: Metadata, tensors: Tensors) -> None:
        word_bytes = tensors["words"].tobytes()
        assert word in word_bytes
        assert len(word) == len(by)
        tensors["words"] = np.frombuffer(word_bytes.replace(word, by, 1), np.uint8)

    return change


def with_log_z(loss: str) -> Change:
    def change(metadata: Metadata, tensors: Tensors) -> None:
        put("loss", loss)(metadata, tensors)
        put("log_z", "0.5")(metadata, tensors)
        put_inside("arguments", loss=loss, log_z=0.5)(metadata, tensors)

    return change


def test_samples_are_accepted(workplace: Path, samples: dict[str, bytes]) -> None:
    for contents in samples.values():
        Path("file").write_bytes(contents)
        container.read("file")
        Path("file").write_bytes(sign(*parse(contents)))
        container.read("file")


def wrapped_offsets(metadata: Metadata, tensors: Tensors) -> None:
    """Write offsets that ascend only with 64-bit wraparound."""
    tensors["offsets"][1:4] = 2**62, -(2**63), -(2**62)
    with np.errstate(over="ignore"):
        assert np.diff(tensors["offsets"][:4]).min() >= 1


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        (VOCABULARY, wrapped_offsets, "`offsets` do not cut `words` into words"),
        (VECTORS, wrapped_offsets, "`offsets` do not cut `words` into words"),
        (MODEL, put_number("offsets", 0, 1), "`offsets` do not cut `words` into words"),
        (VOCABULARY, other_word(b"<unk>", b"<unq>"), "the word `<unk>` is not among its words"),
        (MODEL, other_word(b"<eos>", b"<eoz>"), "the word `<eos>` is not among its words"),
        (VOCABULARY, other_word(b"w12", b"w11"), "the word 'w11' occurs twice"),
        (VECTORS, other_word(b"w12", b"w11"), "the word 'w11' occurs twice"),
        (VOCABULARY, other_word(b"w12", b"w 2"), "white space"),
        (VOCABULARY, put_number("counts", 0, 0), "`counts` are not counts"),
        (MODEL, put_number("counts", slice(0, 3), 2**62), "`counts` are not counts"),
        (VOCABULARY, put_number("counts", 0, 10**6), "do not add up"),
        (VOCABULARY, put("lines", "12"), "do not add up"),
        (VOCABULARY, put("lines", "٣"), '`lines` is "\\u0663", not an integer'),
        (VOCABULARY, put("lines", "9" * 30), "not an integer from 0 to"),
        (VOCABULARY, put("kind", ""), 'its kind is "", which is none of neglm\'s'),
        (VOCABULARY, put("corpus", "[" * 100_000), "`corpus` is not JSON"),
        (VOCABULARY, put("corpus", '{"path":1}'), '`corpus` is {"path": 1}, not a list'),
        (VOCABULARY, put("corpus", '[{"path":"a\\u0000","size":1,"fingerprint":""}]'), "not the name of a file"),
        (VOCABULARY, put_inside("arguments", min_count="1"), '`arguments.min_count` is "1", not an integer'),
        (VOCABULARY, put_inside("arguments", other=1), "`arguments` has `other`, which this neglm does not know"),
        ("encoded corpus", put("mtimes_ns", "3"), "`mtimes_ns` is 3, not a list"),
        ("encoded corpus", put_number("ids", 0, -1), "ids below 0"),
        (VECTORS, put("progress", "[]"), "`progress` is [], not an object"),
        (VECTORS, put("progress", "{}"), "`progress` lacks `done`"),
        (VECTORS, put("noise_alpha", "NaN"), "`noise_alpha` is not JSON"),
        (VECTORS, put_number("vectors", (1, 1), np.nan), "`vectors` contains NaN"),
        (VECTORS, put_number("context_vectors", (1, 1), -np.inf), "`context_vectors` contains NaN"),
        (VECTORS, put_inside("arguments", threads=100_000), "not an integer from 1 to 1,024"),
        (VECTORS, put_inside("arguments", size=7), "`arguments.size` says 7 and the tensors' shapes 6"),
        (VECTORS, replace("context_vectors", lambda t: t[:, :5]), "`context_vectors` has the shape"),
        (MODEL, put("layers", "1000000000"), "not an integer from 1 to 64"),
        (MODEL, put("layers", "1"), "`lstm.1.bias`, which its kind and metadata do not allow"),
        (MODEL, put("layers", "3"), "tensor `lstm.2.w_ih` is missing"),
        (MODEL, put("loss", "softmax"), "`arguments.loss` says neglm and `loss` softmax"),
        (MODEL, put("log_z", "0.5"), "`arguments.log_z` says 0.0 and `log_z` 0.5"),
        (MODEL, with_log_z("neg"), "`log_z` is not 0, but the loss `neg` has no log Z"),
        (MODEL, with_log_z("softmax"), "`log_z` is not 0, but the loss `softmax` has no log Z"),
        (MODEL, put("reset_at_eos", "true"), "`arguments.reset_at_eos` says False and `reset_at_eos` True"),
        (MODEL, put_inside("arguments", hidden=300), "`arguments.hidden` says 300 and the tensors' shapes 4"),
        (MODEL, put_number("output_bias", 0, 0.5), "`output_bias` is not 0"),
        (MODEL, put_number("embedding", (0, 0), np.nan), "`embedding` contains NaN"),
        (MODEL, put_number("lstm.1.w_hh", (0, 0), 3e38), "`lstm.1.w_hh` contains NaN, infinite or absurdly"),
        (MODEL, replace("lstm.1.w_ih", lambda t: t[:-1]), "tensor `lstm.1.w_ih` has the shape 3 × 16, not H × 4H"),
        (STATE, put_inside("arguments", k=10**7), "`arguments.k` is 10000000, not an integer from 0 to 100,000"),
        (STATE, put_inside("progress", epoch_losses=["x"]), '`progress.epoch_losses[0]` is "x", not a number'),
        (STATE, put_inside("progress", epoch=1), "does not have a loss for each epoch"),
        (STATE, put_inside("arguments", batch=4), "`arguments.batch` says 4 and the tensors' shapes 3"),
        (STATE, put_inside("arguments", optimizer="sgd"), "`arguments.optimizer` says sgd and `optimizer` adam"),
        (STATE, put("optimizer", "sgd"), "which its kind and metadata do not allow"),
        (STATE, put("optimizer", "momentum"), '`optimizer` is "momentum", not one of sgd, adagrad, adam'),
        (STATE, put_inside("progress", valid_perplexities=[9.0]), "does not have a validation perplexity for each"),
        (STATE, replace("exp_avg.output", lambda t: t[:, :1]), "tensor `exp_avg.output` has the shape"),
        (STATE, replace("last_update_step.output", lambda t: t[:1]), "`last_update_step.output` has the shape 1"),
        (STATE, put_number("last_update_step.embedding", 0, 10**6), "has steps outside of 0 to"),
        (STATE, put_number("exp_avg_sq.output", (0, 0), -1), "tensor `exp_avg_sq.output` has negative values"),
        (SUBWORDS, put("buckets", "19"), "`arguments.buckets` says 20 and `buckets` 19"),
        (SUBWORDS, put("subwords", "3-2"), "`subwords` is \"3-2\", not a range of lengths from 1 to 99"),
        (FLORET, put("hash_count", "5"), "`hash_count` is 5, not an integer from 0 to 4"),
        (FLORET, put("hash_count", "0"), "tensor `word_rows` is missing"),
        (QUANTIZED, put("dsub", "2"), "it has 2 codes for 6 dimensions in parts of 2"),
        (QUANTIZED, put("dsub", "0"), "`dsub` is 0, not an integer from 1"),
        (SUBWORDS, put("subwords", ""), "`arguments.subwords` says 2-3 and `subwords` "),
        (SUBWORDS, put_number("ngram_rows", (0, 0), np.nan), "tensor `ngram_rows` contains NaN"),
        ("vectors", put("buckets", "5"), "tensor `word_rows` is missing"),
        ("checkpoint adagrad", put_number("sum.lstm.1.bias", 0, -1), "tensor `sum.lstm.1.bias` has negative values"),
    ],
)  # fmt: skip
def test_inconsistent_files(
    workplace: Path, samples: dict[str, bytes], kind: str, change: Change, message: str
) -> None:
    assert message in refused(samples, kind, change)


def test_fields_must_exist_and_be_strings(workplace: Path, samples: dict[str, bytes]) -> None:
    for kind, contents in samples.items():
        repeated = {"subwords", "buckets", "hash_count"}  # if they are missing, `arguments` has them
        for name in parse(contents)[0].keys() - repeated - {"checksum"}:
            refused(samples, kind, lambda metadata, tensors, name=name: metadata.pop(name))  # type: ignore[misc]
            refused(samples, kind, put(name, None))  # type: ignore[arg-type]


def test_a_header_that_is_too_large(workplace: Path, samples: dict[str, bytes]) -> None:
    assert "neglm reads up to 16,777,216" in refused(samples, VOCABULARY, put("other", "[]" * (40 << 20)))
    files = [{"path": "x" * 100, "size": 1, "fingerprint": "0" * 32}] * 200_000
    metadata, tensors = parse(samples[VOCABULARY])
    given = {field.name: json.loads(metadata[field.name]) for field in schema.KINDS[VOCABULARY].fields}
    with pytest.raises(NeglmError, match="there are too many corpus files"):
        container.write("large", VOCABULARY, given | {"corpus": files}, tensors)
    assert not Path("large").exists()


def test_words_with_equal_hashes_are_compared() -> None:
    """With many repeated words, and without: detected by sorting, in any number."""
    words = [b"%d" % number for number in range(1000)]
    names = schema.WordList("words", "offsets", "counts", of_text=False)

    def tensors(listed: list[bytes]) -> dict[str, np.ndarray]:
        return {
            "words": np.frombuffer(b"".join(listed), np.uint8),
            "offsets": np.cumsum([0, *map(len, listed)]),
            "counts": np.ones(len(listed), np.int64),
        }

    check_words(names, tensors(words))
    with pytest.raises(ValueError, match="'7' occurs twice"):
        check_words(names, tensors([*words, b"7"]))


def test_stored_options_are_those_of_the_settings() -> None:
    assert set(options.TRAIN_LM.rules) == {field.name for field in fields(LanguageModelSettings)}
    assert set(options.EMBED.rules) == {field.name for field in fields(EmbedSettings)} | {"pairs"}
    assert set(options.PROGRESS.rules) == {field.name for field in fields(Progress)}
    assert set(options.LOSS.options) == set(LOSSES)
    for settings, rules in ((LanguageModelSettings(), options.TRAIN_LM), (EmbedSettings(), options.EMBED)):
        for name, value in settings.stored().items():
            rules.rules[name].check(value, name)
    assert REQUIRED == (UNKNOWN, END_OF_LINE)


@pytest.mark.parametrize("settings", [LanguageModelSettings, EmbedSettings])
def test_settings_allowed_on_the_command_line_can_be_read(settings: type) -> None:
    rules = options.TRAIN_LM if settings is LanguageModelSettings else options.EMBED
    for name, setting in declared(settings).items():
        for limit in (setting.least, setting.most, *setting.choices, *setting.presets.values()):
            if limit is not None:
                rules.rules[name].check(setting.kind(limit), name)
    with pytest.raises(SchemaError):
        rules.rules["epochs"].check(0, "epochs")
