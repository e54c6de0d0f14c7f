"""neglm from Python, cell by cell; each `# %%` starts a cell in VS Code, Spyder and Jupytext.

    python examples/python/notebook.py

It writes a small corpus to the current directory, and trains vectors and a language model on it in a few seconds
(more on the first run, which compiles kernels).
"""

# %% A corpus: days and places in sentences of a few patterns.
from itertools import product
from pathlib import Path

import neglm_cli

PLACES = {"athens": "greece", "rome": "italy", "paris": "france", "berlin": "germany"}
DAYS = ("monday", "tuesday", "friday", "sunday")
lines = [f"on {day} we fly from {city} to {other}" for day, city, other in product(DAYS, PLACES, PLACES)]
lines += [f"the capital of {country} is {city}" for city, country in PLACES.items()] * 20
Path("corpus.txt").write_text("\n".join(lines) + "\n")

# %% Its vocabulary. `<unk>` and `<eos>` are always there.
words = neglm_cli.vocab("corpus.txt")
print(words)
print("rome" in words, len(words), words["rome"])

# %% Word vectors. Settings have the names of the options of `neglm embed`.
vectors = neglm_cli.embed(size=20, window=3, min_count=1, sample=0, epochs=100, threads=1)
print(vectors)
print(vectors["rome"][:3])
print(vectors.nearest("monday", n=3))
print(vectors.nearest(vectors["rome"] + vectors["paris"], n=3))
print(f"{vectors.similarity('rome', 'paris'):.2f} {vectors.similarity('rome', 'monday'):.2f}")
print(vectors.analogy("rome", "italy", "paris", n=1))

# %% A language model. The callback gets a `Report` every ten seconds, after each epoch and at the end.
losses: list[float] = []


def show(report: neglm_cli.Report) -> None:
    if report.event == "epoch" and report.loss is not None:
        losses.append(report.loss)


model = neglm_cli.train_lm(hidden=32, layers=1, k=10, batch=4, bptt=8, dropout=0, lr=0.5, epochs=20, progress=show)
print(model)
print(f"loss {losses[0]:.2f} at first, {losses[-1]:.2f} in the end")

# %% Scores: one sentence or many. Logarithms are natural unless `base` says otherwise.
print(model.score("the capital of greece is athens"))
print(model.score(["the capital of greece is athens", "athens is greece of capital the"], base=10))
print(model.word_scores("the capital of greece is athens"))
print(model.perplexity("corpus.txt"))

# %% What comes next, and a text.
print(model.next("the capital of", n=4))
print(model.generate("on monday", words=12, seed=3))

# %% Files can be opened again. A language model has word vectors, too.
again = neglm_cli.load("model.safetensors")
assert isinstance(again, neglm_cli.LanguageModel)
print(again.nearest("monday", n=3))
