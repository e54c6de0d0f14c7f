"""Usage errors: one sentence that names the option as typed and says what it accepts."""

import pytest

from tests.conftest import Neglm, one_sentence

SENTENCES = {
    "train-lm --k 0": "--k must be at least 1",
    "train-lm --negative 0": "--negative must be at least 1",
    "train-lm --dropout 2": "--dropout must be at most 0.99",
    "train-lm --loss hinge": "unknown --loss 'hinge'; choose neglm, neglm-b, nce, neg or softmax",
    "export --format parquet": "unknown --format 'parquet'; choose text, binary, npy, tsv, fasttext or floret",
    "score --nbest xml": "unknown --nbest 'xml'; choose tab, kaldi or moses",
    "train-lm --epochs five": "--epochs needs a whole number, not 'five'",
    "train-lm --iter 1.5": "--iter needs a whole number, not '1.5'",
    "train-lm --lr fast": "--lr needs a number, not 'fast'",
    "train-lm --lr=fast": "--lr needs a number, not 'fast'",
    "train-lm --epochs": "--epochs needs a value",
    "train-lm --resume=yes": "--resume takes no value",
    "train-lm --lr nan": "--lr nan must be a finite number above 0",
    "embed -size 100": "there is no option -size; did you mean --size?",
    "embed text -output vectors.bin": "there is no option -output; did you mean --output?",
    "embed -minCount 3": "there is no option -minCount; did you mean --min-count?",
    "embed -iter=3": "there is no option -iter; did you mean --iter?",
    "embed --sze 100": "there is no option --sze; did you mean --size?",
    "embed -cbow 1": "there is no option -cbow; did you mean --cbow?",
    "embed -x": "there is no option -x",
    "embed -qx": "there is no option -x",
    "info a b": "unexpected argument: b",
    "info": "FILE is missing",
    "embd": "No such command 'embd'. Did you mean 'embed'?",
}


@pytest.mark.parametrize("command", SENTENCES)
def test_wrong_usage(neglm: Neglm, command: str) -> None:
    name = command.split()[0]
    page = f"neglm {name} --help" if name != "embd" else "neglm --help"
    said = one_sentence(neglm(*command.split(), code=2).stderr)
    stop = "" if SENTENCES[command].endswith("?") else "."
    assert said == f"neglm: {SENTENCES[command]}{stop} See `{page}`."


def test_control_characters_are_not_printed(neglm: Neglm) -> None:
    said = one_sentence(neglm("train-lm", "--epochs", "\x1b[31m", code=2).stderr)
    assert said.startswith("neglm: --epochs needs a whole number, not '\\x1b[31m'.")


def test_values_and_words_that_start_with_a_dash(neglm: Neglm) -> None:
    """After --, nothing is an option, and a value may look like one."""
    assert "no vectors.safetensors here" in one_sentence(neglm("nearest", "--", "-top", code=1).stderr)
    assert "-top does not exist" in one_sentence(neglm("nearest", "a", "--vectors", "-top", code=1).stderr)
