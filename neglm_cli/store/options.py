"""Rules for the settings and the progress that files keep: which there are, their types and limits."""

from typing import Any, get_type_hints

from neglm_cli.errors import UsageError
from neglm_cli.settings import embed, train_lm, vocab
from neglm_cli.settings.declare import Setting, declared, former_names
from neglm_cli.settings.progress import Progress
from neglm_cli.settings.train_lm import MOST_ALPHA
from neglm_cli.store.rules import (
    MAX_INTEGER,
    MAX_NUMBER,
    Choice,
    Flag,
    Integer,
    Items,
    Number,
    Object,
    OrNull,
    Rule,
    Text,
    invalid,
)


class NGramRange(Text):
    """The lengths of n-grams, `3-6`, or an empty text."""

    def check(self, value: Any, where: str) -> None:
        super().check(value, where)
        try:
            if value:
                embed.ngram_range(value)
        except UsageError as error:
            raise invalid(value, where, "a range of lengths from 1 to 99") from error


def _rules(settings: type) -> dict[str, Rule]:
    return {name: _rule(setting) for name, setting in declared(settings).items()}


def _rule(setting: Setting) -> Rule:
    """The rule that a stored value of a setting obeys: the limits of its option."""
    rule: Rule
    least = setting.least if setting.above is None else setting.above
    if setting.kind is bool:
        rule = Flag()
    elif setting.choices:
        rule = Choice(setting.choices)
    elif setting.kind is int:
        rule = Integer(int(least or 0), MAX_INTEGER if setting.most is None else int(setting.most))
    else:
        least, most = -MAX_NUMBER if least is None else least, setting.most
        rule = Number(least, MAX_NUMBER if most is None else most)
    return OrNull(rule) if setting.optional else rule


def _progress_rule(hint: Any) -> Rule:
    if hint is int:
        return Integer()
    return Number() if hint is float else Items(Number())


LOSS = Choice(declared(train_lm.Settings)["loss"].choices)
K = Integer(0, 100_000)
ALPHA = Number(0, MOST_ALPHA)
LOG_Z = _rule(declared(train_lm.Settings)["log_z"])
LAYERS = _rule(declared(train_lm.Settings)["layers"])

VOCAB = Object(_rules(vocab.Settings), formerly=former_names(vocab.Settings))

TRAIN_LM = Object(
    _rules(train_lm.Settings) | {"k": K},  # a softmax has no noise words
    complete=False,
    formerly=former_names(train_lm.Settings),
)
PROGRESS = Object(
    {name: _progress_rule(hint) for name, hint in get_type_hints(Progress).items()}
    | {"valid_perplexities": Items(Number(0))},
    complete=False,
)

SUBWORDS = NGramRange()
BUCKETS = Integer(0, embed.MOST_BUCKETS)
HASH_COUNT = Integer(0, embed.MOST_HASHES)
EMBED = Object(
    _rules(embed.Settings) | {"subwords": SUBWORDS, "pairs": Flag()},
    complete=False,
    formerly=former_names(embed.Settings),
)
DONE = Object({"done": Integer(), "total": Integer()})
