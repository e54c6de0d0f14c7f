"""Files of language models."""

from pathlib import Path

import numpy as np
import pytest

from neglm_cli.errors import NeglmError
from neglm_cli.lm.model import CHECKPOINT, MODEL, LanguageModel, save
from neglm_cli.settings.parameters import OPTIMIZERS
from neglm_cli.settings.progress import Progress
from neglm_cli.store import container
from neglm_cli.text.word_index import WordIndex
from tests.lm.making import SMALL, device, materialize

WORDS = 20


@pytest.fixture
def words() -> WordIndex:
    listed = [b"<unk>", b"<eos>", *(b"w%d" % i for i in range(WORDS - 2))]
    return WordIndex.of(listed, np.arange(WORDS, 0, -1))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_round_trip(tmp_path: Path, words: WordIndex, optimizer: str) -> None:
    from dataclasses import replace

    settings = replace(SMALL, optimizer=optimizer, loss="nce", log_z=0.5)
    made = device(settings, WORDS)
    progress = Progress(2, 3, 40, 900, 1.5, 20, [5.0, 4.0], [90.0, 80.0])
    files = [{"path": str(tmp_path / "corpus"), "size": 1, "fingerprint": "0" * 32}]
    path = str(tmp_path / "state")
    save(path, CHECKPOINT, words, settings, files, [], progress, made.parameters() | made.state())
    loaded = LanguageModel.load(path)
    assert (loaded.settings, loaded.progress, loaded.finished) == (settings, progress, False)
    assert [Path(file["path"]).resolve() for file in loaded.files] == [(tmp_path / "corpus").resolve()]
    assert list(loaded.words) == list(words)
    for name, tensor in materialize(made.parameters() | made.state()).items():
        np.testing.assert_array_equal(loaded.tensors[name], tensor)
    parameters = loaded.parameters()
    np.testing.assert_array_equal(parameters.tables["output"][:, settings.hidden], loaded.tensors["output_bias"])
    assert not parameters.tables["output"][:, settings.hidden + 1 :].any()
    made.close()


def test_inconsistent_tensors_are_refused(tmp_path: Path, words: WordIndex) -> None:
    made = device(SMALL, WORDS)
    tensors = made.parameters() | {"output_bias": np.zeros(WORDS - 1, np.float32)}
    save(str(tmp_path / "model"), MODEL, words, SMALL, [], [], Progress(), tensors)
    with pytest.raises(NeglmError, match="tensor `output_bias` has the shape 19, not V"):
        LanguageModel.load(str(tmp_path / "model"))
    made.close()


def test_numbered_tensors_must_be_complete(tmp_path: Path, words: WordIndex) -> None:
    made = device(SMALL, WORDS)
    tensors = made.parameters()
    path = str(tmp_path / "model")
    save(path, MODEL, words, SMALL, [], [], Progress(), tensors)
    assert {"lstm.0.w_ih", "lstm.1.w_ih"} <= set(container.read(path).tensors)
    del tensors["lstm.1.w_hh"]
    with pytest.raises(KeyError):
        save(path, MODEL, words, SMALL, [], [], Progress(), tensors)
    made.close()
