import gzip
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from neglm_cli.errors import NeglmError
from neglm_cli.store import container
from neglm_cli.text import encoded as encoded_module
from neglm_cli.text.corpus import open_corpus
from neglm_cli.text.encode import Encoder
from neglm_cli.text.encoded import EncodedCorpus, MappedCorpus, TextCorpus, default_cache, open_encoded
from neglm_cli.text.vocabulary import Vocabulary
from tests.text.making import vocabulary_of
from tests.text.reference import counts, sentences, texts

TEXT = b"the cat sat\non the mat\n\nthe end"


def expected_ids(text: bytes, vocabulary: Vocabulary) -> list[int]:
    ids = {word: i for i, word in enumerate(vocabulary)}
    unknown, end = ids[b"<unk>"], ids[b"<eos>"]
    return [i for words in sentences(text) for i in (*(ids.get(word, unknown) for word in words), end)]


def everything(corpus: EncodedCorpus, position: int = 0) -> list[int]:
    ids = corpus.cursor(position).take(corpus.length)
    assert ids.dtype == np.int32
    return ids.tolist()


class Messages(list[str]):
    def __call__(self, sentence: str) -> None:
        self.append(sentence)


@pytest.fixture
def messages() -> Messages:
    return Messages()


def test_encoder_maps_words_unknown_words_and_line_ends(workplace: Path) -> None:
    vocabulary = vocabulary_of(TEXT, directory=workplace, min_count=2)
    text = b"the dog\nsat\n"
    assert Encoder(vocabulary).encode(text).tolist() == expected_ids(text, vocabulary)


@pytest.mark.parametrize("cached", [True, False])
@given(parts=st.lists(texts, min_size=1, max_size=3), known=texts, size=st.integers(1, 30), data=st.data())
def test_cursors_start_at_any_position(
    tmp_path_factory: pytest.TempPathFactory,
    cached: bool,
    parts: list[bytes],
    known: bytes,
    size: int,
    data: st.DataObject,
) -> None:
    assume(counts(known) and any(parts))
    directory = tmp_path_factory.mktemp("cursors")
    vocabulary = vocabulary_of(known, directory=directory)
    paths = [directory / f"part{number}" for number in range(len(parts))]
    for path, text in zip(paths, parts, strict=True):
        path.write_bytes(text)
    wanted = [i for text in parts for i in expected_ids(text, vocabulary)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoded_module, "TEXT_RANGE", size)
        corpus = open_corpus([str(path) for path in paths])
        encoded = open_encoded(corpus, vocabulary, 2, directory / "cache" if cached else None, lambda sentence: None)
        assert isinstance(encoded, MappedCorpus if cached else TextCorpus)
        assert encoded.length == len(wanted)
        start = data.draw(st.integers(0, len(wanted)))
        cursor = encoded.cursor(start)
        walked: list[int] = []
        for count in data.draw(st.lists(st.integers(0, 20), max_size=5)):
            walked += cursor.take(count).tolist()
        assert walked == wanted[start : start + len(walked)]
        assert everything(encoded, start) == wanted[start:]


def test_the_copy_is_written_once_and_its_size_announced(workplace: Path, messages: Messages) -> None:
    vocabulary = vocabulary_of(TEXT, directory=workplace)
    cache = workplace / "cache"
    for _ in range(2):
        encoded = open_encoded(open_corpus(["0"]), vocabulary, 2, cache, messages)
        assert everything(encoded) == expected_ids(TEXT, vocabulary)
    assert len(list(cache.iterdir())) == 1
    size = 4 * len(expected_ids(TEXT, vocabulary))
    assert messages[0] == f"writing an encoded copy of about {size} bytes to {cache}"
    assert messages[1].startswith("using the encoded copy")


def test_a_copy_of_another_text_is_not_used(workplace: Path, messages: Messages) -> None:
    vocabulary = vocabulary_of(TEXT, directory=workplace)
    cache = workplace / "cache"
    open_encoded(open_corpus(["0"]), vocabulary, 2, cache, messages)
    changed = TEXT.replace(b"cat", b"mat")
    status = os.stat("0")
    (workplace / "0").write_bytes(changed)
    os.utime("0", ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    encoded = open_encoded(open_corpus(["0"]), vocabulary, 2, cache, messages)
    assert everything(encoded) == expected_ids(changed, vocabulary)
    assert "has changed" in messages[1]


def test_a_text_of_another_size_with_the_same_mtime_is_encoded_again(workplace: Path, messages: Messages) -> None:
    vocabulary = vocabulary_of(TEXT, directory=workplace)
    status = os.stat("0")
    open_encoded(open_corpus(["0"]), vocabulary, 2, workplace / "cache", messages)
    (workplace / "0").write_bytes(TEXT + b" end")
    os.utime("0", ns=(status.st_atime_ns, status.st_mtime_ns))
    encoded = open_encoded(open_corpus(["0"]), vocabulary, 2, workplace / "cache", messages)
    assert everything(encoded) == expected_ids(TEXT + b" end", vocabulary)


def test_files_with_the_same_name_in_two_directories(workplace: Path, messages: Messages) -> None:
    vocabulary = vocabulary_of(TEXT, directory=workplace)
    for directory, text in (("x", b"the cat\n"), ("y", b"cat the\n")):
        (workplace / directory).mkdir()
        Path(directory, "text").write_bytes(text)
        os.utime(Path(directory, "text"), ns=(1, 1))
        encoded = open_encoded(open_corpus([f"{directory}/text"]), vocabulary, 2, workplace / "cache", messages)
        assert everything(encoded) == expected_ids(text, vocabulary)


def test_a_pipe_is_encoded_for_this_run_only(workplace: Path, messages: Messages) -> None:
    vocabulary = vocabulary_of(TEXT, directory=workplace)
    os.mkfifo("pipe")
    writer = threading.Thread(target=lambda: Path("pipe").write_bytes(TEXT))
    writer.start()
    encoded = open_encoded(open_corpus(["pipe"]), vocabulary, 2, workplace / "cache", messages)
    writer.join()
    assert everything(encoded) == expected_ids(TEXT, vocabulary)
    assert not (workplace / "cache").exists()
    assert "4 bytes per word" in messages[0]


def test_a_broken_text_leaves_no_temporary_copy(
    workplace: Path, messages: Messages, monkeypatch: pytest.MonkeyPatch
) -> None:
    vocabulary = vocabulary_of(TEXT, directory=workplace)
    (workplace / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(workplace / "tmp"))
    Path("text.gz").write_bytes(gzip.compress(os.urandom(10_000))[:5_000])
    with pytest.raises(NeglmError, match="text.gz is cut short"):
        open_encoded(open_corpus(["text.gz"]), vocabulary, 2, None, messages)
    assert not list((workplace / "tmp").iterdir())


def test_a_touched_but_equal_text_keeps_its_copy(workplace: Path, messages: Messages) -> None:
    vocabulary = vocabulary_of(TEXT, directory=workplace)
    cache = workplace / "cache"
    open_encoded(open_corpus(["0"]), vocabulary, 2, cache, messages)
    os.utime("0", ns=(1, 1))
    open_encoded(open_corpus(["0"]), vocabulary, 2, cache, messages)
    assert messages[1].startswith("using the encoded copy")


def test_another_vocabulary_gets_another_copy(workplace: Path, messages: Messages) -> None:
    cache = workplace / "cache"
    for min_count in (1, 2):
        vocabulary = vocabulary_of(TEXT, directory=workplace, min_count=min_count)
        encoded = open_encoded(open_corpus(["0"]), vocabulary, 2, cache, messages)
        assert everything(encoded) == expected_ids(TEXT, vocabulary)
    assert len(list(cache.iterdir())) == 2


def test_a_damaged_copy_is_rebuilt(workplace: Path, messages: Messages) -> None:
    vocabulary = vocabulary_of(TEXT, directory=workplace)
    cache = workplace / "cache"
    open_encoded(open_corpus(["0"]), vocabulary, 2, cache, messages)
    (copy,) = cache.iterdir()
    copy.write_bytes(copy.read_bytes()[:-4])
    encoded = open_encoded(open_corpus(["0"]), vocabulary, 2, cache, messages)
    assert everything(encoded) == expected_ids(TEXT, vocabulary)
    assert "is cut short" in messages[1]


def test_a_copy_with_a_wrong_checksum_is_rebuilt(workplace: Path, messages: Messages) -> None:
    """All of its ids are valid: only the checksum reveals the damage."""
    vocabulary = vocabulary_of(TEXT, directory=workplace)
    cache = workplace / "cache"
    open_encoded(open_corpus(["0"]), vocabulary, 2, cache, messages)
    (copy,) = cache.iterdir()
    whole = copy.read_bytes()
    copy.write_bytes(whole[:-4] + (3).to_bytes(4, "little"))
    encoded = open_encoded(open_corpus(["0"]), vocabulary, 2, cache, messages)
    assert everything(encoded) == expected_ids(TEXT, vocabulary)
    assert copy.read_bytes() == whole
    assert messages[1].endswith("is damaged: its checksum does not match its contents; rebuilding this encoded copy")


@pytest.mark.parametrize("bad", [-1, 8, 2**31 - 1])
def test_invalid_ids_never_reach_a_kernel(workplace: Path, messages: Messages, bad: int) -> None:
    """Even in a forged copy with a valid checksum."""
    vocabulary = vocabulary_of(TEXT, directory=workplace)
    assert len(vocabulary) == 8
    cache = workplace / "cache"
    open_encoded(open_corpus(["0"]), vocabulary, 2, cache, messages)
    (copy,) = cache.iterdir()
    stored = container.read(copy)
    common = ("checksum", "format", "format_version", "kind", "tool_version")
    fields = {name: value for name, value in stored.fields.items() if name not in common}
    ids = np.append(stored.tensors["ids"][:-1], np.int32(bad))
    container.write(copy, "encoded corpus", fields, {"ids": ids})
    encoded = open_encoded(open_corpus(["0"]), vocabulary, 2, cache, messages)
    encoded.cursor(0).take(3)
    with pytest.raises(NeglmError, match="contains invalid word ids; delete it"):
        everything(encoded)


def test_the_copy_is_a_file_that_info_can_read(workplace: Path, messages: Messages) -> None:
    vocabulary = vocabulary_of(TEXT, directory=workplace)
    open_encoded(open_corpus(["0"]), vocabulary, 2, workplace / "cache", messages)
    (copy,) = (workplace / "cache").iterdir()
    stored = container.read(copy, "encoded corpus")
    assert stored.tensors["ids"].tolist() == expected_ids(TEXT, vocabulary)
    assert stored.fields["lines"] == 4
    assert stored.fields["corpus"][0]["path"] == "../0"


def test_a_corpus_of_many_files(workplace: Path, messages: Messages) -> None:
    """Their sizes are known only after reading, and must still fit in the header."""
    vocabulary = vocabulary_of(TEXT, directory=workplace)
    paths = [f"file{number}" for number in range(300)]
    for path in paths:
        Path(path).write_bytes(TEXT * 40)
    encoded = open_encoded(open_corpus(paths), vocabulary, 2, workplace / "cache", messages)
    assert everything(encoded) == expected_ids(TEXT * 40, vocabulary) * 300
    (copy,) = (workplace / "cache").iterdir()
    assert {file["size"] for file in container.read(copy).fields["corpus"]} == {40 * len(TEXT)}


def test_compressed_text_without_a_cache_leaves_nothing_behind(workplace: Path, messages: Messages) -> None:
    vocabulary = vocabulary_of(TEXT, directory=workplace)
    Path("text.gz").write_bytes(gzip.compress(TEXT))
    with pytest.MonkeyPatch.context() as patch:
        temporary = workplace / "tmp"
        temporary.mkdir()
        patch.setattr("tempfile.tempdir", str(temporary))
        encoded = open_encoded(open_corpus(["text.gz"]), vocabulary, 2, None, messages)
        assert not list(temporary.iterdir())  # even before closing: a killed run leaves nothing either
        assert everything(encoded) == expected_ids(TEXT, vocabulary)


def test_a_disk_that_is_too_small_is_refused_before_writing(
    workplace: Path, messages: Messages, monkeypatch: pytest.MonkeyPatch
) -> None:
    vocabulary = vocabulary_of(TEXT, directory=workplace)
    usage = type("Usage", (), {"free": 7})
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    size = 4 * len(expected_ids(TEXT, vocabulary))
    with pytest.raises(NeglmError, match=f"takes about {size} bytes, but .* has 7 free"):
        open_encoded(open_corpus(["0"]), vocabulary, 2, workplace / "cache", messages)
    assert not list((workplace / "cache").iterdir())


def test_default_cache_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    monkeypatch.delenv("NEGLM_CACHE", raising=False)
    assert default_cache() == Path("/somewhere/neglm")
    monkeypatch.setenv("NEGLM_CACHE", "/elsewhere")
    assert default_cache() == Path("/elsewhere")
