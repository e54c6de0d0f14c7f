"""The schema of each kind of neglm file: its tensors and metadata.

The reader validates files against these tables, and `neglm-format(5)` is generated from them.
"""

from collections.abc import Mapping
from itertools import product
from string import Formatter
from types import MappingProxyType
from typing import Any, NamedTuple

from neglm_cli.settings.train_lm import MOMENTS
from neglm_cli.store import options
from neglm_cli.store.rules import MAX_INTEGER, Choice, FilePath, Flag, Integer, Items, Object, OrNull, Rule, Text

FORMAT_VERSION = 1
MAX_HEADER_SIZE = 16 << 20  # bytes: enough for about 100,000 corpus files
MAX_FLOAT = 3.4028234663852886e38  # float32
MAX_WEIGHT = 1e15  # of a language model: sums of products over a layer do not overflow


class Tensor(NamedTuple):
    """A tensor. {layers} in a name stands for several: 0, 1, … up to the number in that metadata field."""

    name: str
    dtype: str  # in NumPy
    shape: tuple[str, ...]  # an expression per dimension, such as V or 4H; see DIMENSIONS
    meaning: str
    limit: float = MAX_FLOAT  # of absolute values


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
    "N": "number of words in the corpus, with one end of line per line",
    "W": "length of all the vocabulary's words together, in bytes",
    "C": "number of contexts",
    "X": "length of all the contexts' words together, in bytes",
    "D": "number of dimensions of a vector",
    "H": "number of hidden units of a layer",
    "I": "number of inputs of a layer: D for the first one, H for the others",
    "L": "number of layers",
    "B": "rows of a minibatch",
    "M": "V for the optimizer Adam; 1 for others",
}
NONZERO_DIMENSIONS = "VDHLB"  # at least 1

HEXADECIMAL = Text("[0-9a-f]{32}", "32 hexadecimal digits")
FILES = Items(Object({"path": OrNull(FilePath()), "size": Integer(), "fingerprint": HEXADECIMAL}))

COMMON_FIELDS = (
    Field("checksum", HEXADECIMAL, "32 hexadecimal digits; see CHECKSUM"),
    Field("format", Choice(("neglm",)), "always `neglm`"),
    Field("format_version", Integer(1), f"{FORMAT_VERSION}; a reader refuses a file with a higher number"),
    Field("kind", Text(), "what the file is: one of the kinds below"),
    Field("tool_version", Text(), "version of neglm that wrote the file"),
)

CORPUS = Field(
    "corpus",
    FILES,
    "list of the files it was counted from, in order, each an object with `path` (relative to this file's "
    "directory where possible; null for a pipe), `size` in bytes and `fingerprint`; see FINGERPRINT",
)

WORDS_OF_TEXT = WordList("words", "offsets", "counts", of_text=True)
WORDS = (
    Tensor("words", "uint8", ("W",), "the bytes of all words, one after the other, nothing between them"),
    Tensor("offsets", "int64", ("V+1",), "word i is words[offsets[i]:offsets[i+1]]"),
)
PARAMETERS = tuple(
    Tensor(name, "float32", shape, meaning, MAX_WEIGHT)
    for name, shape, meaning in (
        ("embedding", ("V", "D"), "the vector of each word as an input"),
        ("lstm.{layers}.input", ("I", "4H"), "weights of the layer's input; columns are gates i, f, g, o"),
        ("lstm.{layers}.recurrent", ("H", "4H"), "weights of the layer's last output h"),
        ("lstm.{layers}.bias", ("4H",), "biases of the gates, one each"),
        ("output", ("V", "H"), "the vector of each word as an output"),
        ("output_bias", ("V",), "the bias of each word; 0 for losses without"),
    )
)
MODEL_FIELDS = (
    Field("arguments", options.TRAIN_LM,
          "object with the options of the training, as neglm-train-lm(1) has them; none need be there, and those that "
          "other fields or tensors say, too, say the same"),
    CORPUS,
    Field("validation", FILES, "like `corpus`: the text that it was validated on, an empty list for none"),
    Field("loss", options.LOSS, "`neglm`, `neglm-b`, `nce`, `neg` or `softmax`; see PROBABILITIES"),
    Field("k", options.K, "noise words per word, at least 1; `softmax` has none, and any number"),
    Field("noise_alpha", options.ALPHA, "α: noise words were drawn in proportion to counts to the power of α"),
    Field("log_z", options.LOG_Z, "the constant log Z of training scores; 0 for `neg` and `softmax`"),
    Field("layers", options.LAYERS, "layers of the LSTM"),
    Field("reset_at_eos", Flag(), "`true` if every line begins with no state, in training and at test time (see "
          "NETWORK); may be missing, and is then `false` unless `arguments` says otherwise", False),
    Field("progress", options.PROGRESS, "object with how far the training is, which may be empty: see PROGRESS"),
)  # fmt: skip
MODEL_REDUNDANT_OPTIONS = {
    "loss": "loss",
    "k": "k",
    "noise_alpha": "noise_alpha",
    "log_z": "log_z",
    "layers": "layers",
    "reset_at_eos": "reset_at_eos",
    "hidden": "H",
    "embedding": "D",
}

KINDS = {
    "vocabulary": Kind(
        "words with their counts, the most frequent first; words of equal count in the order of their bytes. "
        "A word's place in that order is its id. `<unk>` and `<eos>` are always among them",
        (
            *WORDS,
            Tensor("counts", "int64", ("V",), "how often each word occurs; that of `<unk>` is 1 if it would be 0"),
        ),
        (
            Field("arguments", options.VOCAB, "object with `min_count` and `max_vocab` (null: no limit)"),
            CORPUS,
            Field("lines", Integer(), "lines of the corpus"),
            Field("tokens", Integer(), "words of the corpus, without ends of line"),
            Field("distinct", Integer(), "different words of the corpus"),
            Field("cut_words", Integer(), "different words that were left out; their counts went to `<unk>`"),
            Field("cut_tokens", Integer(), "how often they occur in all"),
            Field(
                "unknown_in_text",
                Integer(),
                "how often the text itself has `<unk>`, whose count in `counts` is at least 1 all the same",
            ),
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
                "modified",
                Items(Integer(-MAX_INTEGER)),
                "list of the files' modification times in nanoseconds, in order",
            ),
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
            Field(
                "arguments",
                options.EMBED,
                "object with all options of the training; empty if it was not neglm's",
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
                "both 0 if it was not neglm's",
            ),
        ),
        (
            WORDS_OF_TEXT._replace(of_text=False),
            WordList("context_words", "context_offsets", "context_counts", of_text=False),
        ),
        {"size": "D", "k": "k", "noise_alpha": "noise_alpha", "objective": "objective"},
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
        (WORDS_OF_TEXT,),
        MODEL_REDUNDANT_OPTIONS,
    ),
    "training state": Kind(
        "a language model whose training is not finished, with all that is needed to go on with it",
        (
            *WORDS,
            Tensor("counts", "int64", ("V",), "how often each word occurs; the probabilities of noise words"),
            *PARAMETERS,
            *(
                tensor._replace(
                    name=f"moment.{{moments}}.{tensor.name}", meaning=f"moments of `{tensor.name}`", limit=MAX_FLOAT
                )
                for tensor in PARAMETERS
            ),
            Tensor(
                "hidden", "float32", ("L", "B", "H"), "h of each layer and row after the last minibatch", MAX_WEIGHT
            ),
            Tensor("cell", "float32", ("L", "B", "H"), "c of each layer and row after the last minibatch", MAX_WEIGHT),
            Tensor(
                "moved",
                "int32",
                ("2", "M"),
                "steps at which Adam last updated rows of `embedding` and `output`",
            ),
        ),
        (
            *MODEL_FIELDS,
            Field(
                "moments",
                Integer(0, max(MOMENTS.values())),
                "of gradients: 0 for SGD; 1, squares, for Adagrad; 2, squares and means, for Adam",
            ),
        ),
        (WORDS_OF_TEXT,),
        MODEL_REDUNDANT_OPTIONS | {"batch": "B"},
    ),
}


def tensors_of(kind: Kind, fields: Mapping[str, Any]) -> list[Tensor]:
    """Return all tensors of a file with these fields, with numbered names expanded."""
    found = []
    for tensor in kind.tensors:
        numbered = [name for _, name, _, _ in Formatter().parse(tensor.name) if name]
        for numbers in product(*(range(fields[name]) for name in numbered)):
            given = dict(zip(numbered, numbers, strict=True))
            inputs = "D" if given.get("layers") == 0 else "H"
            shape = tuple(inputs if length == "I" else length for length in tensor.shape)
            found.append(tensor._replace(name=tensor.name.format(**given), shape=shape))
    return found
