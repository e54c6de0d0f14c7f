"""The settings of `neglm vocab`, besides its data; stored with the vocabulary."""

from dataclasses import dataclass

from neglm_cli.settings.declare import INPUT, setting


@dataclass(frozen=True)
class Settings:
    """The settings of `vocab`."""

    min_count: int = setting(1, "Leave out words that occur fewer than N times.", panel=INPUT, least=1)
    max_size: int | None = setting(
        None, "Keep at most N words, the most frequent, including <unk> and <eos>.", panel=INPUT, least=3,
        shown="no limit",
    )  # fmt: skip
