"""The options of `neglm eval` and `neglm score` for models that adapt, have a cache, or are mixed with another."""

from dataclasses import dataclass

from neglm_cli.settings.declare import TEST_TIME, setting

AUTO = "auto"  # the rate that --tune chooses
MOST_WORDS = 10_000_000
DEFAULTS = {"adapt_decay": 0.003, "cache_theta": 1.0, "cache_weight": 0.15, "interpolate_weight": 0.3}  # without --tune


def _shown(name: str, tuned: str) -> str:
    return f"{DEFAULTS[name]:g}; with --tune, {tuned}"


@dataclass(frozen=True)
class MixingSettings:
    """All values are None where the user gave none."""

    adapt: str | None = setting(
        None,
        "Dynamic evaluation: after each segment of the text (as many words as a minibatch of the training had time "
        "steps) has been scored, take a gradient step on it with this learning rate, by the model's own loss. auto: "
        "choose the rate with --tune.",
        panel=TEST_TIME, metavar="RATE|auto", shown="no adaptation",
    )  # fmt: skip
    adapt_decay: float | None = setting(
        None, "With each step, move all parameters back to the trained ones by this share of the distance.",
        panel=TEST_TIME, metavar="X", least=0, most=1, shown=_shown("adapt_decay", "chosen by it"),
    )  # fmt: skip
    save_adapted: str | None = setting(
        None, "Write the model as it is after the text, which must be the only one.", panel=TEST_TIME, metavar="FILE",
        shown="not written",
    )  # fmt: skip
    cache: int | None = setting(
        None,
        "Neural cache: mix in the words that followed the last N hidden states, in proportion to exp(θ h·h').",
        panel=TEST_TIME, least=1, most=MOST_WORDS, shown="no cache",
    )  # fmt: skip
    cache_theta: float | None = setting(
        None, "θ of the cache.", panel=TEST_TIME, metavar="X", least=0, most=1000,
        shown=_shown("cache_theta", "chosen by it"),
    )  # fmt: skip
    cache_weight: float | None = setting(
        None, "Weight of the cache in the mixture.", panel=TEST_TIME, metavar="X", least=0, most=1,
        shown=_shown("cache_weight", "fitted by EM"),
    )  # fmt: skip
    interpolate: str | None = setting(
        None,
        "Mix in an n-gram model: an ARPA file or a binary file of KenLM (with neglm[kenlm] installed).",
        panel=TEST_TIME, metavar="FILE", shown="none",
    )  # fmt: skip
    interpolate_weight: float | None = setting(
        None, "Weight of the n-gram model in the mixture.", panel=TEST_TIME, metavar="X", least=0, most=1,
        shown=_shown("interpolate_weight", "fitted by EM"),
    )  # fmt: skip
    tune: str | None = setting(
        None,
        "Validation text, never the test text: choose the values above that are not given on it, and print what was "
        "tried.",
        panel=TEST_TIME, metavar="FILE", shown="no tuning",
    )  # fmt: skip
