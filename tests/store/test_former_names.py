"""Files with the names that settings had in earlier versions are read like new ones."""

import json
from pathlib import Path
from typing import Any

import pytest

from neglm_cli.errors import NeglmError
from neglm_cli.lm.model import LanguageModel
from neglm_cli.store import container
from neglm_cli.text.vocabulary import Vocabulary
from neglm_cli.vectors.vectors import Vectors
from tests.store.mutants import sign
from tests.store.samples import parse, write_samples

FORMERLY = {  # by kind: new names with the old ones
    "vocabulary": {"max_vocab": "max_size"},
    "vectors": {"full_batch": "exact"},
    "language model neglm": {"init_range": "init"},
}


def with_arguments(data: bytes, change: Any) -> bytes:
    metadata, tensors = parse(data)
    return sign(metadata | {"arguments": json.dumps(change(json.loads(metadata["arguments"])))}, tensors)


@pytest.mark.parametrize("kind", FORMERLY)
def test_files_of_earlier_versions(workplace: Path, kind: str) -> None:
    sample, names = write_samples(workplace)[kind], FORMERLY[kind]
    Path("new").write_bytes(sample)
    new = container.read("new").fields["arguments"]
    assert set(names) <= set(new)
    old = with_arguments(sample, lambda given: {names.get(name, name): value for name, value in given.items()})
    Path("old").write_bytes(old)
    assert container.read("old").fields["arguments"] == new
    if kind == "vocabulary":
        assert Vocabulary.load("old").max_vocab == Vocabulary.load("new").max_vocab
    elif kind == "vectors":
        assert Vectors.load("old").arguments == Vectors.load("new").arguments
    else:
        assert LanguageModel.load("old").settings == LanguageModel.load("new").settings
    both = with_arguments(sample, lambda given: given | {names[name]: given[name] for name in names})
    Path("both").write_bytes(both)
    with pytest.raises(NeglmError, match=f"which this neglm does not know|{next(iter(names.values()))}"):
        container.read("both")
