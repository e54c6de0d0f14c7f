"""The schema of each kind of neglm file: its tensors and metadata.

The reader validates files against these tables, and `neglm-format(5)` is generated from them.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from string import Formatter
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from neglm_cli.settings.losses import LOSSES, LOSSES_WITHOUT_LOG_Z
from neglm_cli.settings.parameters import (
    AVERAGE,
    CELL_STATE,
    HIDDEN_STATE,
    LAST_UPDATE_STEP,
    OPTIMIZERS,
    PARAMETERS,
    Dimension,
    ParameterSpec,
    layer_shape,
    tables,
)
from neglm_cli.store import options
from neglm_cli.store.rules import MAX_INTEGER, Choice, FilePath, Flag, Integer, Items, Object, OrNull, Rule, Text

FORMAT_VERSION = 2  # files of version 1 are read, too: see `version1`
MAX_HEADER_SIZE = 16 << 20  # bytes: enough for about 100,000 corpus files
MAX_FLOAT = 3.4028234663852886e38  # float32
NO_SUBWORDS = ""
MAX_WEIGHT = 1e15  # of a language model or a quantized vector: sums of products do not overflow


class Tensor(NamedTuple):
    """A tensor. A name with a placeholder of PLACEHOLDERS stands for several."""

    name: str
    dtype: str  # in NumPy
    shape: tuple[str, ...]  # an expression per dimension, see `Dimension`, with the letters of DIMENSIONS
    meaning: str
    limit: float = MAX_FLOAT  # of absolute values
    only_if: tuple[str, ...] = ()  # names of CONDITIONS, all of which must hold for the tensor to exist


class Field(NamedTuple):
    name: str
    rule: Rule
    meaning: str
    default: Any = None  # not None: may be missing in older files; then from `arguments`, or this value

    @property
    def type(self) -> str:
        """`text`, `integer`, or `JSON`."""
        return self.rule.stored_as


class WordList(NamedTuple):
    """Tensors that form a list of distinct words with counts of at least 1."""

    words: str
    offsets: str
    counts: str
    of_text: bool  # has `<unk>` and `<eos>`, and no whitespace in words


class Kind(NamedTuple):
    meaning: str
    tensors: tuple[Tensor, ...]
    fields: tuple[Field, ...]
    word_lists: tuple[WordList, ...] = ()
    redundant_options: Mapping[str, str] = MappingProxyType({})  # option → field or dimension it must equal


DIMENSIONS = {
    "V": "number of words in the vocabulary",
    "N": "number of words in the corpus, including `<eos>` of each line",
    "W": "total length of the vocabulary's words in bytes",
    "C": "number of contexts",
    "X": "total length of the contexts' words in bytes",
    "D": "number of dimensions of a vector",
    "G": "number of buckets of n-grams",
    "P": "number of codes of a quantized vector",
    "H": "number of hidden units of a layer",
    "I": "number of inputs of a layer: D for the first one, H for the others",
    "L": "number of layers",
    "B": "rows of a minibatch",
}
NONZERO_DIMENSIONS = "VDPHLB"  # at least 1

PLACEHOLDERS = {
    "layer": "number of a layer, from 0 to `layers` - 1",
    "state": "value that the optimizer keeps for each parameter: "
    + "; ".join(
        f"for `{optimizer}` " + (" and ".join(f"`{each.name}`" for each in spec.state) or "none")
        for optimizer, spec in OPTIMIZERS.items()
    ),
    "table": f"table whose rows are updated one by one: {' and '.join(f'`{table}`' for table in tables())} for "
    + " and ".join(f"`{optimizer}`" for optimizer, spec in OPTIMIZERS.items() if spec.row_steps)
    + f", none for other optimizers; a tied model has only {' and '.join(f'`{table}`' for table in tables(tied=True))}",
}

HEXADECIMAL = Text("[0-9a-f]{32}", "32 hexadecimal digits")
FILES = Items(Object({"path": OrNull(FilePath()), "size": Integer(), "fingerprint": HEXADECIMAL}))

COMMON_FIELDS = (
    Field("checksum", HEXADECIMAL, "32 hexadecimal digits; see CHECKSUM"),
    Field("format", Choice(("neglm",)), "always `neglm`"),
    Field("format_version", Integer(1), f"{FORMAT_VERSION}; a reader refuses a file with a higher number"),
    Field("kind", Text(), "kind of the file: one of those below"),
    Field("tool_version", Text(), "version of neglm that wrote the file"),
)

CORPUS = Field(
    "corpus",
    FILES,
    "list of the corpus files, in order, each an object with `path` (relative to this file's "
    "directory where possible; null for a pipe), `size` in bytes and `fingerprint`; see FINGERPRINT",
)

CONDITIONS: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "untied": lambda fields: not fields.get("tie"),
    "averaged": lambda fields: bool(fields["progress"].get("averaged")),
    "subwords": lambda fields: bool(fields["buckets"]),
    "rows of words": lambda fields: not fields["hash_count"],
}


def _untied(spec: ParameterSpec) -> tuple[str, ...]:
    """Return the condition of a parameter that tied models lack."""
    return ("untied",) if spec.tied_to else ()


WORDS_OF_TEXT = WordList("words", "offsets", "counts", of_text=True)
WORDS = (
    Tensor("words", "uint8", ("W",), "bytes of all words, concatenated"),
    Tensor("offsets", "int64", ("V+1",), "word i is words[offsets[i]:offsets[i+1]]"),
)
MODEL_TENSORS = (
    *WORDS,
    Tensor("counts", "int64", ("V",), "count of each word, from which noise probabilities follow"),
    *(Tensor(spec.name, "float32", spec.shape, spec.meaning, MAX_WEIGHT, only_if=_untied(spec)) for spec in PARAMETERS),
)
CHECKPOINT_TENSORS = (
    *(
        Tensor(
            f"{{state}}.{spec.name}",
            "float32",
            spec.shape,
            f"optimizer state of `{spec.name}`",
            only_if=_untied(spec),
        )
        for spec in PARAMETERS
    ),
    *(
        Tensor(
            f"{AVERAGE}{spec.name}",
            "float32",
            spec.shape,
            f"average of `{spec.name}`; none if `progress.averaged` is 0",
            MAX_WEIGHT,
            ("averaged", *_untied(spec)),
        )
        for spec in PARAMETERS
    ),
    Tensor(f"{LAST_UPDATE_STEP}.{{table}}", "int32", ("V",), "step of the last update of each row; see TRAINING"),
    Tensor(HIDDEN_STATE, "float32", ("L", "B", "H"), "h of each layer and row after the last minibatch", MAX_WEIGHT),
    Tensor(CELL_STATE, "float32", ("L", "B", "H"), "c of each layer and row after the last minibatch", MAX_WEIGHT),
)


def _listed(names: Iterable[str], conjunction: str) -> str:
    """Return `a`, `b` and `c`."""
    *first, last = (f"`{name}`" for name in names)
    return f"{', '.join(first)} {conjunction} {last}"


MODEL_FIELDS = (
    Field("arguments", options.TRAIN_LM,
          "object with the options of the training, as in neglm-train-lm(1); all are optional, and must agree with "
          "other fields and with the shapes of tensors"),
    CORPUS,
    Field("validation", FILES, "like `corpus`: the validation text, an empty list for none"),
    Field("loss", options.LOSS, f"{_listed(LOSSES, 'or')}; see PROBABILITIES"),
    Field("k", options.K, "noise words per word, at least 1; ignored for `softmax`"),
    Field("noise_alpha", options.ALPHA, "α: noise words were drawn in proportion to counts to the power of α"),
    Field("log_z", options.LOG_Z,
          f"the constant log Z of training scores; 0 for {_listed(LOSSES_WITHOUT_LOG_Z, 'and')}"),
    Field("layers", options.LAYERS, "layers of the LSTM"),
    Field("tie", Flag(), "`true` if input and output vectors of words are one table: there is no `embedding`, and the "
          "rows of `output` stand in for it (D = H); if missing, the value in `arguments`, or `false`", False),
    Field("reset_at_eos", Flag(), "`true` if every line starts from a zero state, in training and at test time (see "
          "NETWORK); if missing, the value in `arguments`, or `false`", False),
    Field("progress", options.PROGRESS, "object with the progress of the training, which may be empty; see PROGRESS"),
)  # fmt: skip
MODEL_REDUNDANT_OPTIONS = {
    "loss": "loss",
    "k": "k",
    "noise_alpha": "noise_alpha",
    "log_z": "log_z",
    "layers": "layers",
    "tie": "tie",
    "reset_at_eos": "reset_at_eos",
    "hidden": "H",
    "embedding": "D",
}

SUBWORD_FIELDS = (
    Field(
        "subwords",
        options.SUBWORDS,
        "lengths of n-grams in characters, as `3-6`; empty or missing without subwords",
        NO_SUBWORDS,
    ),
    Field("buckets", options.BUCKETS, "number of buckets of n-grams, G; 0 or missing without subwords", 0),
    Field(
        "hash_count",
        options.HASH_COUNT,
        "in a table of floret, the rows of each word and n-gram, from 1 to 4; otherwise 0 or missing",
        0,
    ),
)
SUBWORD_OPTIONS = {name: name for name in ("subwords", "buckets", "hash_count")}

KINDS = {
    "vocabulary": Kind(
        "words with their counts, the most frequent first; words of equal count in the order of their bytes. "
        "A word's index in that order is its id. `<unk>` and `<eos>` are always among them",
        (
            *WORDS,
            Tensor("counts", "int64", ("V",), "how often each word occurs; that of `<unk>` is 1 if it would be 0"),
        ),
        (
            Field("arguments", options.VOCAB, "object with `min_count` and `max_vocab` (null: no limit)"),
            CORPUS,
            Field("lines", Integer(), "lines of the corpus"),
            Field("tokens", Integer(), "words of the corpus, without ends of line"),
            Field("distinct_words", Integer(), "distinct words of the corpus"),
            Field("oov_words", Integer(), "distinct words that were left out; their counts were added to `<unk>`"),
            Field("oov_tokens", Integer(), "occurrences of these words"),
            Field("unk_tokens", Integer(), "occurrences of `<unk>` in the corpus itself"),
        ),
        (WORDS_OF_TEXT,),
    ),
    "encoded corpus": Kind(
        "a corpus as word ids: a cache that `neglm` makes, checks and may remake; safe to delete",
        (Tensor("ids", "int32", ("N",), "the id of every word, with that of `<eos>` at the end of every line"),),
        (
            CORPUS,
            Field(
                "vocabulary",
                HEXADECIMAL,
                "XXH3-128 of the vocabulary's tensors `offsets` and `words`, whose ids these are",
            ),
            Field("lines", Integer(), "lines of the corpus"),
            Field(
                "mtimes_ns",
                Items(Integer(-MAX_INTEGER)),
                "list of the files' modification times in nanoseconds, in order",
            ),
        ),
    ),
    "vectors": Kind(
        "word vectors and context vectors, as `neglm embed` trains them. Trained on text, words and contexts are the "
        "same; trained on pairs, words are on the left and contexts on the right. Imported vectors may have no "
        "contexts (C = 0)",
        (
            *WORDS,
            Tensor("counts", "int64", ("V",), "how often each word occurs"),
            Tensor("vectors", "float32", ("V", "D"), "the vector of each word"),
            Tensor("context_words", "uint8", ("X",), "like `words`, for the contexts"),
            Tensor("context_offsets", "int64", ("C+1",), "like `offsets`, for the contexts"),
            Tensor("context_counts", "int64", ("C",), "like `counts`, for the contexts; noise is drawn by them"),
            Tensor("context_vectors", "float32", ("C", "D"), "the vector of each context"),
            Tensor(
                "word_rows",
                "float32",
                ("V", "D"),
                "with subwords, except in a table of floret: the row of each word; see SUBWORDS",
                only_if=("subwords", "rows of words"),
            ),
            Tensor(
                "ngram_rows",
                "float32",
                ("G", "D"),
                "with subwords: the row of each bucket of n-grams",
                only_if=("subwords",),
            ),
        ),
        (
            Field(
                "arguments",
                options.EMBED,
                "object with all options of the training; empty for imported vectors",
            ),
            CORPUS,
            Field(
                "objective",
                Choice(("pmi", "cond", "unknown")),
                "what the product of a word's and a context's vector approximates: `pmi`, log p(x,y)/(p(x)p_α(y)) - "
                "log k; `cond`, log p(y|x); or `unknown`",
            ),
            Field("k", options.K, "noise words per pair; 0 if unknown"),
            Field(
                "noise_alpha",
                options.ALPHA,
                "α: noise words were drawn in proportion to context_counts to the power of α",
            ),
            Field(
                "progress",
                options.DONE,
                "object with `done` and `total`, in words or pairs over all epochs, or in iterations of --full-batch; "
                "both 0 for imported vectors",
            ),
            *SUBWORD_FIELDS,
        ),
        (
            WORDS_OF_TEXT._replace(of_text=False),
            WordList("context_words", "context_offsets", "context_counts", of_text=False),
        ),
        {
            "size": "D",
            "k": "k",
            "noise_alpha": "noise_alpha",
            "objective": "objective",
        }
        | SUBWORD_OPTIONS,
    ),
    "quantized vectors": Kind(
        "word vectors in one byte for every few dimensions, as `neglm export --quantize` writes them; see QUANTIZATION",
        (
            *WORDS,
            Tensor("counts", "int64", ("V",), "how often each word occurs"),
            Tensor("centroids", "float32", ("256", "D"), "the centroids of each part of the dimensions", MAX_WEIGHT),
            Tensor("codes", "uint8", ("V", "P"), "the vector of each word: a centroid for each part"),
            Tensor("scales", "float32", ("V",), "the factor of each vector", MAX_WEIGHT),
            *(
                Tensor(
                    f"ngram_{name}", dtype, shape, f"with subwords: like `{name}`, for buckets", limit, ("subwords",)
                )
                for name, dtype, shape, limit in (
                    ("centroids", "float32", ("256", "D"), MAX_WEIGHT),
                    ("codes", "uint8", ("G", "P"), MAX_FLOAT),
                    ("scales", "float32", ("G",), MAX_WEIGHT),
                )
            ),
        ),
        (
            Field("arguments", options.EMBED, "object with all options of the training; may be empty"),
            CORPUS,
            Field("dsub", Integer(1), "dimensions of a part; the last one may have fewer"),
            *SUBWORD_FIELDS,
        ),
        (WORDS_OF_TEXT._replace(of_text=False),),
        {"size": "D"} | SUBWORD_OPTIONS,
    ),
    "language model": Kind(
        "a language model, as `neglm train-lm` trains it: a vocabulary with counts, an embedding, LSTM layers with "
        "input, forget, cell and output gates, and an output table",
        MODEL_TENSORS,
        MODEL_FIELDS,
        (WORDS_OF_TEXT,),
        MODEL_REDUNDANT_OPTIONS,
    ),
    "checkpoint": Kind(
        "a language model whose training is not finished, with everything needed to resume it",
        (*MODEL_TENSORS, *CHECKPOINT_TENSORS),
        (
            *MODEL_FIELDS,
            Field(
                "optimizer",
                Choice(tuple(OPTIMIZERS)),
                f"one of {', '.join(f'`{o}`' for o in OPTIMIZERS)}; see TRAINING",
            ),
        ),
        (WORDS_OF_TEXT,),
        MODEL_REDUNDANT_OPTIONS | {"optimizer": "optimizer", "batch": "B"},
    ),
}


def tensors_of(kind: Kind, fields: Mapping[str, Any]) -> list[Tensor]:
    """Return all tensors of a file with these fields, with placeholders in names filled in."""
    found, tied = [], fields.get("tie", False)
    for tensor in kind.tensors:
        if not all(CONDITIONS[name](fields) for name in tensor.only_if):
            continue
        placeholders = [name for _, name, _, _ in Formatter().parse(tensor.name) if name]
        for values in product(*(_values(name, fields) for name in placeholders)):
            given = dict(zip(placeholders, values, strict=True))
            shape = layer_shape(tensor.shape, given.get("layer", 0), tied)
            found.append(tensor._replace(name=tensor.name.format(**given), shape=shape))
    return found


def _values(placeholder: str, fields: Mapping[str, Any]) -> Sequence[Any]:
    """Return the values of a placeholder in a file with these fields."""
    if placeholder == "layer":
        return range(fields["layers"])
    optimizer = OPTIMIZERS[fields["optimizer"]]
    if placeholder == "state":
        return [each.name for each in optimizer.state]
    return tables(fields.get("tie", False)) if optimizer.row_steps else ()


def data_size(kind: str, fields: Mapping[str, Any], lengths: Mapping[str, int]) -> int:
    """Return the bytes of the tensors of a file. lengths: of the dimensions that its tensors have."""
    return sum(
        math.prod(Dimension.parse(each).length(lengths) for each in tensor.shape) * np.dtype(tensor.dtype).itemsize
        for tensor in tensors_of(KINDS[kind], fields)
    )
