"""States of a language model: values that can be kept, with the probabilities of `next` and `score`."""

import copy
import math
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import neglm_cli
from tests.api.test_loading import load
from tests.cli.test_score import model, trained  # noqa: F401
from tests.conftest import users_environment

BEAM_SEARCH = Path(__file__).parent.parent.parent / "examples" / "python" / "beam_search.py"


@pytest.fixture
def loaded(model: object) -> neglm_cli.LanguageModel:  # noqa: F811
    return load()


def test_states_have_the_probabilities_of_next(loaded: neglm_cli.LanguageModel) -> None:
    state = loaded.start()
    for prefix in ("", "w1", "w1 nowhere", "w1 nowhere w2"):
        expected = loaded.next(prefix, n=5)
        found = state.top(5)
        assert [word for word, _ in found] == [word for word, _ in expected]
        np.testing.assert_allclose([math.exp(score) for _, score in found], [share for _, share in expected], rtol=1e-4)
        for word, score in found:
            assert state.score(word) == pytest.approx(score, abs=1e-4)
        state = state.advance({"": "w1", "w1": "nowhere"}.get(prefix, "w2"))
    everything = loaded.start().top(10**9)
    assert len(everything) == len(loaded)
    assert sum(math.exp(score) for _, score in everything) == pytest.approx(1, abs=1e-3)
    assert loaded.start().top(0) == []


def test_a_line_is_the_sum_of_its_words(loaded: neglm_cli.LanguageModel) -> None:
    state, total = loaded.start(), 0.0
    for word in ("w3", "w1", "nowhere", "<eos>"):
        total += state.score(word)
        state = state.advance(word)
    assert total == pytest.approx(loaded.score("w3 w1 nowhere"), abs=1e-4)
    start = loaded.start()
    assert start.score("nowhere") == start.score("<unk>")
    logits = [start.score(word, normalized=False) - start.score(word) for word in ("w1", "w2")]
    assert logits[0] == pytest.approx(logits[1], abs=1e-4)


def test_states_are_values(loaded: neglm_cli.LanguageModel) -> None:
    first = loaded.start().advance("w1")
    before = first.top(3)
    children = [first.advance(word) for word in ("w2", "w3", "w2")]
    assert first.top(3) == before
    assert children[0].top(3) == children[2].top(3) != children[1].top(3)
    with pytest.raises(ValueError, match="read-only"):
        first._state.h[:] = 0
    for copied in (copy.copy(first), *copy.deepcopy([first])):
        assert copied.top(3) == before
    assert children[0] == children[2] != children[1]
    assert len(set(children)) == 2
    assert first != "w1"
    with pytest.raises(TypeError, match="keep their words"):
        pickle.dumps(first)


def test_threads_take_turns(loaded: neglm_cli.LanguageModel) -> None:
    words = [f"w{i % 40}" for i in range(400)]
    start = loaded.start()

    def score(word: str) -> float:
        return start.advance(word).advance("w2").score("w1")

    alone = [score(word) for word in words]
    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(score, words)) == alone
    finally:
        sys.setswitchinterval(switching)


def test_states_of_another_model_are_refused(loaded: neglm_cli.LanguageModel) -> None:
    other = load()
    with pytest.raises(ValueError, match="another model"):
        loaded.advance([loaded.start(), other.start()], ["w1", "w2"])
    assert loaded.start() != other.start()


def test_batches_advance_as_one_by_one(loaded: neglm_cli.LanguageModel) -> None:
    words = [f"w{i % 7}" for i in range(600)]  # more than a batch
    states = loaded.advance([loaded.start()] * 600, words)
    again = loaded.advance(states, words[::-1])
    for i in (0, 1, 299, 599):
        alone = loaded.start().advance(words[i]).advance(words[-1 - i])
        assert again[i].score("w1") == pytest.approx(alone.score("w1"), abs=1e-4)
    assert loaded.advance([], []) == []
    with pytest.raises(ValueError, match="2 states and 1 words"):
        loaded.advance(states[:2], ["w1"])
    for wrong in ("", "two words", " w1"):
        with pytest.raises(ValueError, match="not a single word"):
            loaded.start().advance(wrong)
    with pytest.raises(TypeError, match="3 is not a word"):
        loaded.start().advance(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not the string 'w1'"):
        loaded.advance(states[:2], "w1")


@pytest.mark.usefixtures("model")
def test_beam_search_example() -> None:
    command = [sys.executable, str(BEAM_SEARCH), "model.safetensors", "w1 w2"]
    lines = subprocess.run(command, env=users_environment(), capture_output=True, text=True, check=True).stdout
    found = [line.split("\t") for line in lines.splitlines()]
    assert found
    loaded = load()
    scores = [float(score) for score, _ in found]
    assert scores == sorted(scores, reverse=True)
    for score, text in found:
        assert text.startswith("w1 w2")
        assert loaded.score(text) / (len(text.split()) + 1) == pytest.approx(float(score), abs=1e-3)
