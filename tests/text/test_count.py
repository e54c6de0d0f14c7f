import gzip
import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from neglm_cli.errors import NeglmError
from neglm_cli.text import count as count_module
from neglm_cli.text import fingerprint as fingerprint_module
from neglm_cli.text import source as source_module
from neglm_cli.text.corpus import open_corpus
from neglm_cli.text.count import Counts, counting
from tests.text.making import no_progress
from tests.text.reference import counts as expected_counts
from tests.text.reference import sentences, texts


def contents(counts: Counts) -> Counter[bytes]:
    word_bytes, ends = counts.word_bytes.tobytes(), counts.offsets.tolist()
    return Counter({word_bytes[ends[i] : ends[i + 1]]: int(counts.counts[i]) for i in range(len(counts.counts))})


@given(
    parts=st.lists(texts, min_size=1, max_size=3),
    threads=st.integers(1, 4),
    block=st.integers(1, 50),
    memory=st.sampled_from([0, 2_000, 1 << 30]),
)
def test_counts_are_exact_for_any_threads_blocks_and_memory(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], threads: int, block: int, memory: int
) -> None:
    expected = expected_counts(*parts)
    assume(expected)
    paths = [tmp_path_factory.mktemp("count") / "text" for _ in parts]
    for path, text in zip(paths, parts, strict=True):
        path.write_bytes(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_module, "BLOCK", block)
        patch.setattr(fingerprint_module, "BLOCK", block)
        with counting(open_corpus([str(path) for path in paths]), threads, memory, no_progress) as counts:
            assert contents(counts) - Counter() == expected
            assert counts.tokens == expected.total()
            assert counts.lines == sum(len(sentences(text)) for text in parts)
            assert {b"<unk>", b"<eos>"} <= set(contents(counts))
            assert bool(counts.runs) == counts.is_sorted
            assert counts.runs or memory > 0


def test_many_words_spill_and_merge(workplace: Path) -> None:
    text = b"\n".join(b" ".join(b"w%d" % (i * j % 9973) for j in range(50)) for i in range(2_000)) + b"\n"
    (workplace / "text").write_bytes(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_module, "BLOCK", 10_000)
        with counting(open_corpus(["text"]), 2, 100_000, no_progress) as counts:
            assert counts.runs > 3
            assert contents(counts) - Counter() == expected_counts(text)


def test_progress_adds_up_to_the_size_on_disk(workplace: Path) -> None:
    (workplace / "text").write_bytes(b"a b c\n" * 1_000)
    seen: list[int] = []
    with counting(open_corpus(["text", "text"]), 2, 1 << 20, seen.append) as counts:
        assert sum(seen) == 12_000
        assert [file["size"] for file in counts.files] == [6_000, 6_000]


def test_white_space_only_has_no_words(workplace: Path) -> None:
    (workplace / "blank").write_bytes(b" \n\t\r\n")
    with (
        pytest.raises(NeglmError, match="blank has no words"),
        counting(open_corpus(["blank"]), 1, 1 << 20, no_progress),
    ):
        pass


def test_full_thread_tables_are_merged(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(count_module, "LOCAL_MEMORY", 1)
    monkeypatch.setattr(source_module, "BLOCK", 100)
    text = b" ".join(b"%d" % (i % 300) for i in range(5_000))
    (workplace / "text").write_bytes(text)
    with counting(open_corpus(["text"]), 3, 1 << 30, no_progress) as counts:
        assert counts.runs == 0
        assert contents(counts) - Counter() == expected_counts(text)


def test_progress_of_a_compressed_file_is_its_size_on_disk(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "BLOCK", 1_000)
    Path("text.gz").write_bytes(gzip.compress(os.urandom(30_000).hex(" ").encode()))
    seen: list[int] = []
    with counting(open_corpus(["text.gz"]), 2, 1 << 26, seen.append) as counts:
        assert sum(seen) == counts.files[0]["size"] == os.path.getsize("text.gz")
