"""neglm-format(5), from the schema that the reader checks files against."""

from neglm_cli.cli import manual_programs
from neglm_cli.cli.manual_model import model_sections
from neglm_cli.cli.roff import bold, escape, paragraph, section, see_also, tagged, title, verbatim
from neglm_cli.settings.parameters import LAST_UPDATE_STEP
from neglm_cli.store import schema, version1

LAYOUT = (
    ("8 bytes", "The length of the header, little-endian."),
    (
        "header",
        "JSON in ASCII, padded with blanks to a multiple of 8 bytes: `__metadata__` first, then one entry per "
        "tensor with `dtype` (U8, I32, I64, F32), `shape`, and `data_offsets` counted from the end of the header.",
    ),
    (
        "data",
        "The tensors, little-endian, one after the other, wide types first, then by name, so that each is aligned "
        "to its type.",
    ),
)

SUBWORDS = (
    "With `subwords`, the vector of a word is the mean of its row in `word_rows` and the rows in `ngram_rows` of the "
    "buckets of its n-grams. The vector of any other word is the mean of the rows of its n-grams; a word without "
    "n-grams has none. `vectors` has the vectors of the vocabulary, so that a reader may ignore the other two tensors.",
    "N-grams are those of fastText. A word is put between `<` and `>`. Its n-grams are all runs of as many characters "
    "as `subwords` says, except `<` and `>` alone; an n-gram that occurs twice counts twice. A character is a byte and "
    "all bytes from 128 to 191 after it, which is a code point if the word is UTF-8. The word `</s>` has no n-grams.",
    "The bucket of an n-gram is its hash modulo `buckets`. The hash starts as 2166136261. For each byte, to "
    "which 4294967040 is added if it is 128 or more, it becomes (hash xor byte) times 16777619, modulo 2 to the power "
    "of 32.",
    "With `hash_count`, the table is one of floret: there is no `word_rows`, and the vector of every word is the mean "
    "of the rows of `ngram_rows` of the word itself, between `<` and `>`, and of its n-grams, `hash_count` rows each. "
    "Here, `<` and `>` alone are n-grams, too, and `</s>` is a word like any other. The hashes are the 32-bit parts, "
    "lowest first, of the 128 bits of MurmurHash3 (x64) with the seed 2166136261; the rows are these modulo `buckets`.",
)

QUANTIZATION = (
    "In `quantized vectors`, the dimensions of a vector are divided into P parts of `dsub`, the last of which may have "
    "fewer. Dimension d of word i is scales[i] times centroids[codes[i, p], d], where p is d divided by `dsub`, "
    "rounded down. The rows of n-grams are stored in the same way; those of words are not stored, since the vectors of "
    "the vocabulary are.",
)

CHECKS = (
    "neglm verifies each file that it opens. The checksum must match. The tensors must be exactly those of the kind, "
    "with the types and shapes given here. The metadata given here must be present, valid and consistent; other "
    "metadata are ignored. The words of a list must be distinct and not empty, with counts of at least 1; those of "
    "vocabularies and language models must include `<unk>` and `<eos>`, and contain no white space. Values must be "
    "finite. Tensors and metadata may have any order.",
)

OLD_VERSION = (
    "neglm also reads files of version 1, which have the same contents under other names, and resumes their trainings. "
    "It writes version 2 only. `moments` was the number of values that the optimizer keeps for each parameter; SGD and "
    "Adagrad had a `moved` of shape 2 × 1, to be ignored. The names that changed:"
)

EXAMPLES = (
    ("The most frequent word of a vocabulary, in Python, without neglm:", manual_programs.VOCABULARY),
    ("The vectors in a quantized file, decoded, in NumPy:", manual_programs.QUANTIZED),
    (
        "The probability of each word of a text, by a language model, in PyTorch. It prints each word and `<eos>` with "
        "its id, log-probability and logit, which `neglm score MODEL TEXT --carry --per-word --base e` prints without "
        "and with --unnormalized:",
        manual_programs.PYTORCH,
    ),
    ("The same in NumPy, with the LSTM written out:", manual_programs.NUMPY),
    (
        "Verify the checksum of a file, or with --write store it in the file. A program that writes files starts with "
        "a checksum of 32 zeros, for example among the metadata for safetensors.numpy.save_file, and then runs this:",
        manual_programs.CHECKSUM,
    ),
)


def format_page(*others: str) -> str:
    """Return the page. others: the pages that it refers to."""
    lines = title("neglm-format", 5, "the files that neglm writes")
    lines += section(
        "DESCRIPTION",
        "All files that neglm writes, except word lists, are safetensors files: any program for safetensors can read "
        "them, and reading runs no code. This page describes their contents in enough detail to write a reader or a "
        "writer.",
        "A file is written under a temporary name in the same directory, flushed to disk and renamed. Equal contents "
        "give equal bytes.",
    )
    lines += [".SH LAYOUT"]
    for tag, text in LAYOUT:
        lines += tagged(bold(tag), text)
    lines += section(
        "METADATA",
        "The header's `__metadata__` object maps names to strings. An `integer` is decimal digits; `JSON` has sorted "
        "keys and no blanks. All kinds have the first five; each kind adds its own. They stand in the order given "
        "here.",
    )
    lines += _fields(schema.COMMON_FIELDS)
    for name, kind in schema.KINDS.items():
        lines += [f".SH KIND: {name.upper()}", ".PP", escape(_sentence(kind.meaning)), ".SS Tensors"]
        for tensor in kind.tensors:
            shape = " × ".join(tensor.shape)
            lines += tagged(f"{bold(tensor.name)}  {tensor.dtype} ({shape})", _sentence(tensor.meaning))
        lines += [".SS Metadata", *_fields(kind.fields)]
    lines += section(
        "LETTERS",
        "A tensor name with braces stands for several tensors; for example, `lstm.0.w_ih` has the input weights of "
        "the first layer.",
    )
    for placeholder, meaning in schema.PLACEHOLDERS.items():
        lines += tagged(bold(f"{{{placeholder}}}"), _sentence(meaning))
    lines += paragraph("Lengths of dimensions:")
    for letter, meaning in schema.DIMENSIONS.items():
        lines += tagged(bold(letter), _sentence(meaning))
    lines += section("SUBWORDS", *SUBWORDS)
    lines += section("QUANTIZATION", *QUANTIZATION)
    lines += section("CHECKS", *CHECKS)
    lines += [*section("VERSION 1", OLD_VERSION), *verbatim(*_version1_names())]
    lines += model_sections()
    lines += section(
        "CHECKSUM",
        "Take all bytes before the data (the length and the header) and replace the 32 digits of `checksum` by the "
        "character 0. Append the 16 bytes of the XXH3-128 digest of the data, in canonical (big-endian) order. The "
        "checksum is the XXH3-128 digest of the result, in hexadecimal. It detects accidental damage, not forgery. "
        "EXAMPLES has a program that computes it.",
    )
    lines += section(
        "FINGERPRINT",
        "The fingerprint of a corpus file is the XXH3-128 digest, in hexadecimal, of the concatenated XXH3-128 digests "
        "of its blocks of 4,194,304 bytes (the last one may be shorter). A compressed file counts as it is on disk.",
    )
    lines += section(
        "TEXT RULES",
        "Words are separated by ASCII white space only: blank, tab, newline, carriage return, vertical tab and form "
        "feed. Any other byte belongs to a word; no encoding is assumed. Lines end at a newline; the end of a line is "
        "the word `<eos>`, also for a last line without a newline. A word that the vocabulary lacks is `<unk>`.",
    )
    lines += [".SH EXAMPLES"]
    for meaning, program in EXAMPLES:
        lines += [*paragraph(meaning), *verbatim(*program.strip().split("\n"))]
    return "\n".join([*lines, *see_also(*others)]) + "\n"


def _sentence(text: str) -> str:
    """Return a meaning as a sentence, with a capital letter unless it is Greek: a capital α looks like an A."""
    return f"{text[0].upper() if text[0].isascii() else text[0]}{text[1:]}."


def _fields(fields: tuple[schema.Field, ...]) -> list[str]:
    return [line for f in fields for line in tagged(f"{bold(f.name)}  {f.type}", _sentence(f.meaning))]


def _version1_names() -> list[str]:
    """Return lines with the names of version 1 of the format, and those of version 2."""
    names = {
        **version1.KINDS,
        **version1.FIELDS,
        **{f"progress.{old}": f"progress.{new}" for old, new in version1.PROGRESS.items()},
        **version1.TENSORS,
        **{f"lstm.n.{old}": f"lstm.n.{new}" for old, new in version1.LAYER_WEIGHTS.items()},
        version1.MOVED: f"{LAST_UPDATE_STEP}.*, one tensor for each row",
    }
    rows = [
        *names.items(),
        *((f"{old}*", f"{new}* ({optimizer})") for optimizer, table in version1.MOMENTS.items()
          for old, new in table.items()),
    ]  # fmt: skip
    return [f"{'version 1':<20}  version 2", *(f"{old:<20}  {new}" for old, new in rows)]
