"""What each kind of neglm file holds.

The reader checks files against these tables and `neglm-format(5)` is printed from them, so neither can
say something that the other does not.
"""

from collections.abc import Mapping
from itertools import product
from string import Formatter
from typing import Any, NamedTuple

FORMAT_VERSION = 1


class Tensor(NamedTuple):
    """A name with {layers} in it stands for several: layer 0, 1, … up to the number in that field of the metadata."""

    name: str
    dtype: str  # NumPy's name
    shape: tuple[str, ...]  # one letter or expression per dimension, see LETTERS
    meaning: str


class Field(NamedTuple):
    name: str
    type: str  # "text", "integer", or "JSON"
    meaning: str


class Kind(NamedTuple):
    meaning: str
    tensors: tuple[Tensor, ...]
    fields: tuple[Field, ...]


LETTERS = {
    "V": "number of words in the vocabulary",
    "N": "number of words in the corpus, with one end of line per line",
    "W": "length of all the vocabulary's words together, in bytes",
    "C": "number of contexts",
    "X": "length of all the contexts' words together, in bytes",
    "D": "number of dimensions of a vector",
    "H": "number of hidden units of a layer",
    "I": "number of inputs of a layer: D for the first one, H for the others",
    "L": "number of layers",
    "B": "rows of a minibatch",
}

COMMON_FIELDS = (
    Field("checksum", "text", "32 hexadecimal digits; see CHECKSUM"),
    Field("format", "text", "always `neglm`"),
    Field("format_version", "integer", f"{FORMAT_VERSION}; a reader refuses a file with a higher number"),
    Field("kind", "text", "what the file is: one of the kinds below"),
    Field("tool_version", "text", "version of neglm that wrote the file"),
)

CORPUS = Field(
    "corpus",
    "JSON",
    "list of the files it was counted from, in order, each an object with `path` (relative to this file's "
    "directory where possible; null for a pipe), `size` in bytes and `fingerprint`; see FINGERPRINT",
)

WORDS = (
    Tensor("words", "uint8", ("W",), "the bytes of all words, one after the other, nothing between them"),
    Tensor("offsets", "int64", ("V+1",), "word i is words[offsets[i]:offsets[i+1]]"),
)
PARAMETERS = (
    Tensor("embedding", "float32", ("V", "D"), "the vector of each word as an input"),
    Tensor("lstm.{layers}.input", "float32", ("I", "4H"), "weights of the layer's input; columns are gates i, f, g, o"),
    Tensor("lstm.{layers}.recurrent", "float32", ("H", "4H"), "weights of the layer's last output"),
    Tensor("lstm.{layers}.bias", "float32", ("4H",), "biases of the gates"),
    Tensor("output", "float32", ("V", "H"), "the vector of each word as an output"),
    Tensor("output_bias", "float32", ("V",), "the bias of each word; 0 for losses without"),
)
MODEL_FIELDS = (
    Field("arguments", "JSON", "object with all options of the training"),
    CORPUS,
    Field("validation", "JSON", "like `corpus`: the text that it was validated on, an empty list for none"),
    Field("loss", "text", "`neglm`, `neglm-b`, `nce`, `neg` or `softmax`; what is added to a score at test time is in "
          "`logit_offsets` of neglm_cli.objective.losses and in neglm-train-lm(1)"),
    Field("k", "integer", "noise words per word"),
    Field("noise_alpha", "JSON", "α: noise words were drawn in proportion to counts to the power of α"),
    Field("log_z", "JSON", "the constant log Z of training scores"),
    Field("layers", "integer", "layers of the LSTM"),
    Field("progress", "JSON", "object with how far the training is: see neglm-train-lm(1), --log"),
)  # fmt: skip

KINDS = {
    "vocabulary": Kind(
        "words with their counts, the most frequent first; words of equal count in the order of their bytes. "
        "A word's place in that order is its id. `<unk>` and `<eos>` are always among them",
        (
            *WORDS,
            Tensor("counts", "int64", ("V",), "how often each word occurs; that of `<unk>` is 1 if it would be 0"),
        ),
        (
            Field("arguments", "JSON", "object with `min_count` and `max_size` (null: no limit)"),
            CORPUS,
            Field("lines", "integer", "lines of the corpus"),
            Field("tokens", "integer", "words of the corpus, without ends of line"),
            Field("distinct", "integer", "different words of the corpus"),
            Field("cut_words", "integer", "different words that were left out; their counts went to `<unk>`"),
            Field("cut_tokens", "integer", "how often they occur in all"),
            Field(
                "unknown_in_text",
                "integer",
                "how often the text itself has `<unk>`, whose count in `counts` is at least 1 all the same",
            ),
        ),
    ),
    "encoded corpus": Kind(
        "a corpus as word ids: a cache that `neglm` makes, checks and may remake; safe to delete",
        (Tensor("ids", "int32", ("N",), "the id of every word, with that of `<eos>` at the end of every line"),),
        (
            CORPUS,
            Field(
                "vocabulary", "text", "XXH3-128 of the vocabulary's tensors `offsets` and `words`, whose ids these are"
            ),
            Field("lines", "integer", "lines of the corpus"),
            Field("modified", "JSON", "list of the files' modification times in nanoseconds, in order"),
        ),
    ),
    "vectors": Kind(
        "word vectors and context vectors, as `neglm embed` trains them. Trained on text, words and contexts are the "
        "same; trained on pairs, words are what stands left and contexts what stands right. Vectors that came from "
        "elsewhere have no contexts (C = 0)",
        (
            *WORDS,
            Tensor("counts", "int64", ("V",), "how often each word occurs"),
            Tensor("vectors", "float32", ("V", "D"), "the vector of each word"),
            Tensor("context_words", "uint8", ("X",), "like `words`, for the contexts"),
            Tensor("context_offsets", "int64", ("C+1",), "like `offsets`, for the contexts"),
            Tensor("context_counts", "int64", ("C",), "like `counts`, for the contexts; noise is drawn by them"),
            Tensor("contexts", "float32", ("C", "D"), "the vector of each context"),
        ),
        (
            Field("arguments", "JSON", "object with all options of the training; empty if it was not neglm's"),
            CORPUS,
            Field(
                "objective",
                "text",
                "what the product of a word's and a context's vector approximates: `pmi`, log p(x,y)/(p(x)p_α(y)) - "
                "log k; `cond`, log p(y|x); or `unknown`",
            ),
            Field("k", "integer", "noise words per pair; 0 if unknown"),
            Field("noise_alpha", "JSON", "α: noise words were drawn in proportion to context_counts to the power of α"),
            Field("progress", "JSON", "object with `done` and `total`: how much of the training lies behind it"),
        ),
    ),
    "language model": Kind(
        "a language model, as `neglm train-lm` trains it: word vectors, an LSTM whose gates are input, forget, new "
        "value and output, and an output table. The vocabulary is in it",
        (
            *WORDS,
            Tensor("counts", "int64", ("V",), "how often each word occurs; the probabilities of noise words"),
            *PARAMETERS,
        ),
        MODEL_FIELDS,
    ),
    "training state": Kind(
        "a language model whose training is not finished, with all that is needed to go on with it",
        (
            *WORDS,
            Tensor("counts", "int64", ("V",), "how often each word occurs; the probabilities of noise words"),
            *PARAMETERS,
            *(
                tensor._replace(name=f"moment.{{moments}}.{tensor.name}", meaning=f"moments of `{tensor.name}`")
                for tensor in PARAMETERS
            ),
            Tensor("hidden", "float32", ("L", "B", "H"), "the layers' last outputs"),
            Tensor("cell", "float32", ("L", "B", "H"), "the layers' cells"),
            Tensor(
                "moved",
                "int32",
                ("2", "V"),
                "steps at which Adam last moved rows of `embedding` and `output`; (2, 1) for other optimisers",
            ),
        ),
        (
            *MODEL_FIELDS,
            Field(
                "moments", "integer", "of gradients: 0 for SGD; 1, squares, for Adagrad; 2, squares and means, for Adam"
            ),
        ),
    ),
}


def tensors_of(kind: Kind, fields: Mapping[str, Any]) -> list[Tensor]:
    """All tensors of a file with these fields: those with a number in their names are as many as a field says."""
    found = []
    for tensor in kind.tensors:
        numbered = [name for _, name, _, _ in Formatter().parse(tensor.name) if name]
        for numbers in product(*(range(fields[name]) for name in numbered)):
            name = tensor.name.format(**dict(zip(numbered, numbers, strict=True)))
            found.append(tensor._replace(name=name))
    return found
