"""Training settings: the options of `neglm embed`, stored with the vectors."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Settings:
    """Settings of a training run, with word2vec's defaults."""

    size: int = 100
    window: int = 5
    k: int = 5
    sample: float = 1e-3
    noise_alpha: float = 0.75
    min_count: int = 5
    epochs: int = 5
    lr: float = 0.025
    objective: str = "pmi"
    exact: bool = False
    seed: int = 1
    threads: int = 1
    deterministic: bool = False

    def stored(self) -> dict[str, Any]:
        return asdict(self)


PAIRS_DEFAULTS = {"noise_alpha": 1.0, "min_count": 1}  # a table of pairs is used unfiltered, unlike text
