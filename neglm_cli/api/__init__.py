"""neglm from Python.

    import neglm_cli

    vectors = neglm_cli.embed("corpus.txt", size=50, epochs=10)
    vectors.nearest("market")
    vectors.analogy("man", "king", "woman")

    model = neglm_cli.train_lm("corpus.txt", hidden=100, progress=print)
    model.score("the market rose")                        # natural logarithm; base=10 for log10
    model.score(["the market rose", "rose market the"])
    model.next("the market")
    model.score(neglm_cli.tokenize("The market rose."))   # if the training text was tokenized that way
    print(model.generate("the market", words=20))
    model.start().advance("the").top(5)                   # states, for decoders

    vectors = neglm_cli.load("vectors.safetensors")

Settings have the names of the command line's options, with underscores. Errors are `NeglmError`s with one sentence.
Notes of a run go to the logger `neglm_cli`. Ctrl-C during training writes a checkpoint for `resume=True`, then raises
KeyboardInterrupt.
"""

from neglm_cli.api.decoding import TextState
from neglm_cli.api.files import Vocabulary, WordVectors, tokenize
from neglm_cli.api.language_model import LanguageModel
from neglm_cli.api.loading import load
from neglm_cli.api.training import embed, train_lm, vocab
from neglm_cli.errors import NeglmError
from neglm_cli.runs.host import Report

__all__ = [
    "LanguageModel",
    "NeglmError",
    "Report",
    "TextState",
    "Vocabulary",
    "WordVectors",
    "embed",
    "load",
    "tokenize",
    "train_lm",
    "vocab",
]
