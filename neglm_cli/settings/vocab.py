"""The settings of `neglm vocab`, besides its data; stored with the vocabulary."""

from dataclasses import dataclass

from neglm_cli.settings.declare import INPUT, setting


@dataclass(frozen=True)
class Settings:
    """The settings of `vocab`."""

    min_count: int = setting(1, "Drop words that occur fewer than N times.", panel=INPUT, least=1)
    max_vocab: int | None = setting(
        None, "Keep only the N most frequent words, including <unk> and <eos>.", panel=INPUT, least=3,
        shown="no limit", formerly=("max_size",),
    )  # fmt: skip
