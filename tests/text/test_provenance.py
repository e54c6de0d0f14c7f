import gzip
import os
from pathlib import Path

import pytest

from neglm_cli.errors import NeglmError
from neglm_cli.text.fingerprint import combine
from neglm_cli.text.provenance import path_from, path_relative_to, reopen
from neglm_cli.text.vocabulary import Vocabulary
from tests.text.making import vocabulary_of


def recorded(home: str) -> list[dict[str, object]]:
    return Vocabulary.load(home).files


@pytest.fixture
def home(workplace: Path) -> str:
    (workplace / "data").mkdir()
    vocabulary_of(b"a b\n", b"c d\n", directory=workplace / "data").save("vocab")
    return "vocab"


def test_opens_the_same_corpus(home: str) -> None:
    corpus = reopen(recorded(home), home, 2)
    assert [source.path for source in corpus.sources] == ["data/0", "data/1"]


def test_from_another_directory(home: str, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workplace / "elsewhere").mkdir()
    monkeypatch.chdir(workplace / "elsewhere")
    reopen(recorded("../vocab"), "../vocab", 2)


def test_after_both_are_moved(home: str, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workplace / "new").mkdir()
    os.rename("vocab", "new/vocab")
    os.rename("data", "new/data")
    monkeypatch.chdir("/")
    path = str(workplace / "new" / "vocab")
    reopen(recorded(path), path, 2)


def test_refuses_a_missing_corpus(home: str) -> None:
    os.unlink("data/1")
    with pytest.raises(NeglmError, match="data/1, the corpus of vocab, is missing; name a corpus, or make vocab again"):
        reopen(recorded(home), home, 2)


@pytest.mark.parametrize("content", [b"c d e\n", b"c x\n"])
def test_refuses_a_changed_corpus_even_of_the_same_size(home: str, content: bytes) -> None:
    Path("data/1").write_bytes(content)
    with pytest.raises(NeglmError, match="data/1, the corpus of vocab, has changed"):
        reopen(recorded(home), home, 2)


def test_refuses_a_pipe() -> None:
    with pytest.raises(NeglmError, match="was a pipe, which cannot be read again"):
        reopen([{"path": None, "size": 1, "fingerprint": ""}], "vocab", 1)


def test_refuses_a_vocabulary_without_corpus() -> None:
    with pytest.raises(NeglmError, match="has no record of its corpus"):
        reopen([], "vocab", 1)


def test_paths_through_symbolic_links(workplace: Path) -> None:
    (workplace / "real" / "deep").mkdir(parents=True)
    (workplace / "real" / "text").touch()
    os.symlink("real/deep", "link")
    stored = path_relative_to("link/vocab", "real/text")
    assert stored == "../text"
    assert path_from("link/vocab", stored) == "real/text"


def test_a_compressed_corpus(workplace: Path) -> None:
    vocabulary_of(gzip.compress(b"a b\n"), directory=workplace).save("vocab")
    assert [source.path for source in reopen(recorded("vocab"), "vocab", 2).sources] == ["0"]


def test_a_corpus_that_is_a_link_keeps_its_name(workplace: Path) -> None:
    Path("real").mkdir()
    Path("link").symlink_to("real/text")
    assert path_relative_to("vocab", "link") == "link"


@pytest.mark.parametrize("what", ["device", "pipe", "link to a device", "directory"])
def test_only_regular_files_are_read_unless_the_user_names_them(workplace: Path, what: str) -> None:
    """An untrusted vocabulary may name any file as its corpus: it is not opened."""
    path = "/dev/zero" if what == "device" else "corpus"
    match what:
        case "pipe":
            os.mkfifo(path)
        case "link to a device":
            os.symlink("/dev/zero", path)
        case "directory":
            os.mkdir(path)
    file = {"path": path, "size": os.stat(path).st_size, "fingerprint": combine([])}
    with pytest.raises(NeglmError, match="the corpus of vocab, has changed; name a corpus"):
        reopen([file], "vocab", 1)
