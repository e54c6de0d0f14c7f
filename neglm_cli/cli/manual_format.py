"""neglm-format(5), from the schema that the reader checks files against."""

from neglm_cli.cli import manual_programs
from neglm_cli.cli.manual_model import model_sections
from neglm_cli.cli.roff import bold, escape, paragraph, section, see_also, tagged, title, verbatim
from neglm_cli.store import schema

LAYOUT = (
    ("8 bytes", "The length of the header, little-endian."),
    (
        "header",
        "JSON in ASCII, padded with blanks to a multiple of 8 bytes: `__metadata__` first, then one entry per "
        "tensor with `dtype` (U8, I32, "
        "I64, F32), `shape`, and `data_offsets` counted from the end of the header.",
    ),
    (
        "data",
        "The tensors, little-endian, one after the other, wide types first, then by name, so that each is aligned "
        "to its type.",
    ),
)

CHECKS = (
    "neglm verifies each file that it opens. The checksum must be right. The tensors must be those of the kind, and no "
    "others, with the types and shapes given here. The metadata given here must be there, with possible values that do "
    "not contradict each other; other metadata are ignored. The words of a list must be different and not empty, with "
    "counts of at least 1; those of vocabularies and language models must include `<unk>` and `<eos>`, and contain no "
    "white space. Numbers must be finite. Tensors and metadata may have any order.",
)

EXAMPLES = (
    ("The most frequent word of a vocabulary, in Python, without neglm:", manual_programs.VOCABULARY),
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
    """The page; `others` are those it refers to."""
    lines = title("neglm-format", 5, "the files that neglm writes")
    lines += section(
        "DESCRIPTION",
        "Everything that neglm writes, but for word lists, is a safetensors file: any program that reads those can "
        "read it, and reading "
        "runs no code. This page says what is in them, in enough detail to write a reader or a writer.",
        "A file is written under a temporary name in the same directory, flushed to disk and renamed. The same "
        "contents always "
        "give the same bytes.",
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
        "A name with {layers} stands for one tensor per layer: lstm.0.input is that of the first one, and the last has "
        "the number `layers` - 1. {moments} counts in the same way, up to `moments` - 1.",
        "Lengths of dimensions:",
    )
    for letter, meaning in schema.DIMENSIONS.items():
        lines += tagged(bold(letter), _sentence(meaning))
    lines += section("CHECKS", *CHECKS)
    lines += model_sections()
    lines += section(
        "CHECKSUM",
        "Take all bytes before the data (the length and the header) and replace the 32 digits of `checksum` by the "
        "character 0. Append the 16 bytes of the XXH3-128 digest of the data, in canonical (big-endian) order. The "
        "checksum is the XXH3-128 digest of all that, in hexadecimal. XXH3 runs at the speed of memory; it guards "
        "against "
        "accidents, not against forgery. EXAMPLES has a program that computes it.",
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
    """A meaning with a capital letter and a period; a capital α would look like an A."""
    return f"{text[0].upper() if text[0].isascii() else text[0]}{text[1:]}."


def _fields(fields: tuple[schema.Field, ...]) -> list[str]:
    return [line for f in fields for line in tagged(f"{bold(f.name)}  {f.type}", _sentence(f.meaning))]
