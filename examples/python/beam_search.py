"""Beam search with a language model, and rescoring of what it finds.

python examples/python/beam_search.py model.safetensors 'the market'
"""

import sys

import neglm_cli
from neglm_cli import LanguageModel, TextState

WIDTH, WORDS = 8, 12
Hypothesis = tuple[float, list[str], TextState]  # log-probability, words, and the state after them


def beam_search(model: LanguageModel, prompt: list[str]) -> list[list[str]]:
    """Return the most likely continuations of a prompt, each up to the end of its line."""
    state = model.start()
    for word in prompt:
        state = state.advance(word)
    beam: list[Hypothesis] = [(0.0, prompt, state)]
    ended: list[list[str]] = []
    for _ in range(WORDS):
        found = [(score + more, words, state, word) for score, words, state in beam for word, more in state.top(WIDTH)]
        best = sorted(found, key=lambda each: -each[0])[:WIDTH]
        ended += [words for _, words, _, word in best if word == "<eos>"]
        going = [each for each in best if each[3] not in ("<eos>", "<unk>")]
        states = model.advance([each[2] for each in going], [each[3] for each in going])  # all together
        beam = [(each[0], [*each[1], each[3]], state) for each, state in zip(going, states, strict=True)]
    return ended or [words for _, words, _ in beam]


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    model = neglm_cli.load(sys.argv[1])
    assert isinstance(model, LanguageModel)
    lines = [" ".join(words) for words in beam_search(model, sys.argv[2].split())]
    per_word = {line: score / (len(line.split()) + 1) for line, score in zip(lines, model.score(lines), strict=True)}
    for line, score in sorted(per_word.items(), key=lambda each: -each[1]):  # short lines have no advantage
        print(f"{score:.4f}\t{line}")
