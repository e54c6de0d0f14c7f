"""The settings of `neglm embed`, besides its data; stored with the vectors."""

import re
from dataclasses import asdict, dataclass
from typing import Any

from neglm_cli.errors import UsageError
from neglm_cli.settings.declare import INPUT, RUNTIME, TRAINING, preset, setting
from neglm_cli.settings.train_lm import MOST_ALPHA

MOST_BUCKETS = 2**31 - 1  # their numbers are int32
MOST_HASHES, DEFAULT_HASHES = 4, 2  # of floret; as many are the parts of its hash, and what spaCy's packages have
NGRAM_RANGE = re.compile("([1-9][0-9]?)-([1-9][0-9]?)")


@dataclass(frozen=True)
class Settings:
    """The settings of `embed`. Defaults are word2vec's. The same settings, data and threads give the same training."""

    size: int = setting(100, "Dimensions of a vector.", least=1, most=10_000_000)
    window: int = setting(
        5, "Largest distance of a context from its word; each window draws its own size from 1 to this.", least=1,
        most=1000,
    )  # fmt: skip
    k: int = setting(5, "Noise words per pair; 2 to 20 are useful.", least=1, most=1000, names=("--k", "--negative"))
    sample: float = setting(
        1e-3, "Subsample words whose share of the text is above T; 0 for none. Useful: 1e-5 to 1e-3.", metavar="T",
        least=0,
    )  # fmt: skip
    noise_alpha: float = setting(
        0.75, "Draw noise words in proportion to count^ALPHA: 1 for unigram frequencies, 0 for uniform.",
        metavar="ALPHA", least=0, most=MOST_ALPHA, presets={"pairs": 1.0},
    )  # fmt: skip
    subwords: str | None = setting(
        None,
        "Compose the vector of a word from its own row and those of its n-grams of MIN to MAX characters, as in "
        "fastText: useful is 3-6. Unknown words then get vectors, too.",
        metavar="MIN-MAX", shown="none",
    )  # fmt: skip
    buckets: int | None = setting(
        None, "Rows for n-grams, which are assigned by a hash; fastText has 2,000,000.", least=1, most=MOST_BUCKETS,
        shown="twice the distinct n-grams of the vocabulary, at most 2,000,000; with --floret 200,000",
    )  # fmt: skip
    floret: bool = setting(
        False,
        "With --subwords: one small table for words and n-grams, as in floret. `neglm export --format floret` writes "
        "it for spaCy.",
    )
    hash_count: int | None = setting(
        None, "With --floret: rows of each word and n-gram; their sum tells apart those that share one.", least=1,
        most=MOST_HASHES, shown=f"{DEFAULT_HASHES}", names=("--hash-count", "--hashCount"),
    )  # fmt: skip
    cbow: bool = setting(
        False,
        "Predict a word from the mean of its contexts' vectors (CBOW), not from each of them (skip-gram): faster, and "
        "worse for rare words.",
    )
    min_count: int = setting(
        5, "Leave out words that occur fewer than N times.", panel=INPUT, least=1, presets={"pairs": 1}
    )
    epochs: int = setting(5, "Passes over the text.", panel=TRAINING, least=1, names=("--epochs", "--iter"))
    lr: float = setting(
        0.025, "Initial learning rate; it decays linearly to a ten-thousandth. (word2vec's -alpha.)", panel=TRAINING,
        metavar="RATE", above=0, presets={"cbow": 0.05},
    )  # fmt: skip
    objective: str = setting(
        "pmi",
        "What the dot product of two vectors approximates: pmi, the shifted PMI, as in word2vec; or cond, log p(y|x).",
        metavar="NAME", choices=("pmi", "cond"),
    )  # fmt: skip
    full_batch: bool = setting(
        False,
        "With --pairs: maximize the whole objective, without sampling, to convergence. For tables of up to 25 million "
        "cells.",
        panel=TRAINING, formerly=("exact",),
    )  # fmt: skip
    seed: int = setting(1, "Seed of all random numbers.", panel=TRAINING, least=0, most=2**63 - 1)
    threads: int = setting(
        1, "Threads; under mpirun, those of each rank.", panel=RUNTIME, least=1, most=1024, shown="all cores"
    )
    deterministic: bool = setting(
        False, "The same bytes at every run with the same --seed and --threads.", panel=TRAINING
    )

    @property
    def hashes(self) -> int:
        """Rows of each word and n-gram in a table of floret; 0 without one."""
        return (self.hash_count or DEFAULT_HASHES) if self.floret else 0

    def stored(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


PAIRS_DEFAULTS = preset(Settings, "pairs")
CBOW_DEFAULTS = preset(Settings, "cbow")


def ngram_range(subwords: str) -> tuple[int, int]:
    """Return the shortest and longest n-gram of `--subwords`. Raise UsageError if it is no range."""
    match = NGRAM_RANGE.fullmatch(subwords)
    if match is None or int(match[1]) > int(match[2]):
        raise UsageError(
            f"--subwords '{subwords}' is no range of lengths from 1 to 99: give it as 3-6, the shorter first."
        )
    return int(match[1]), int(match[2])
