"""Options for models that adapt, have a cache, or are mixed with an n-gram model: their checks, and such models."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from neglm_cli.cli.console import console
from neglm_cli.cli.scores import rounded
from neglm_cli.errors import NeglmError, count_of, shown
from neglm_cli.runs.overwriting import refuse_overwriting
from neglm_cli.settings.mixing import AUTO, DEFAULTS
from neglm_cli.store.output import STANDARD_OUTPUT, check_writable

if TYPE_CHECKING:
    import numpy as np

    from neglm_cli.lm.cuda.gpu import Gpu
    from neglm_cli.lm.mixing import MixedModel, MixedScorer
    from neglm_cli.lm.model import LanguageModel
    from neglm_cli.lm.tuning import Trial

ADDITIONS = ("adapt", "cache", "interpolate")
NEEDS = {  # options that make sense only with another
    "adapt_decay": "adapt", "save_adapted": "adapt", "cache_theta": "cache", "cache_weight": "cache",
    "interpolate_weight": "interpolate",
}  # fmt: skip
TUNABLE = {"adapt": ("adapt", "adapt_decay"), "cache": ("cache_theta", "cache_weight"),
           "interpolate": ("interpolate_weight",)}  # fmt: skip
NAMES = {  # of tuned values, as options
    "rate": "adapt", "decay": "adapt_decay", "theta": "cache_theta", "cache_weight": "cache_weight",
    "ngram_weight": "interpolate_weight",
}  # fmt: skip


def check_options(given: dict[str, Any], inputs: list[str], unnormalized: bool = False, texts: int = 1) -> None:
    """Raise on options that do not fit together. inputs: all files that are read."""
    for option, needed in NEEDS.items():
        if option in given and needed not in given:
            raise typer.BadParameter(f"{_option(option)} is for {_option(needed)}.")
    additions = [name for name in ADDITIONS if name in given]
    if "tune" in given and not additions:
        raise typer.BadParameter("--tune is for --adapt, --cache and --interpolate.")
    if "tune" in given and not any(_is_tuned(given, name) for addition in additions for name in TUNABLE[addition]):
        raise typer.BadParameter("--tune has nothing to choose: all values are given.")
    if given.get("adapt") == AUTO and "tune" not in given:
        raise typer.BadParameter("--adapt auto needs a validation text, --tune FILE; or give a rate, such as 0.1.")
    _rate(given)
    weights = [given[name] for name in ("cache_weight", "interpolate_weight") if name in given]
    if sum(weights) >= 1:
        raise typer.BadParameter(f"weights that sum to {sum(weights):g} leave nothing for the model itself.")
    if unnormalized and ("cache" in given or "interpolate" in given):
        raise typer.BadParameter("--cache and --interpolate mix probabilities, which --unnormalized does not compute.")
    if (output := given.get("save_adapted")) is not None:
        if texts != 1:
            raise typer.BadParameter("--save-adapted is for a single text.")
        if output in STANDARD_OUTPUT:
            raise typer.BadParameter("--save-adapted needs the name of a file: results go to standard output.")
        refuse_overwriting([output], [*inputs, given.get("tune"), given.get("interpolate")])
        check_writable(output)


def is_mixed(given: dict[str, Any]) -> bool:
    return any(name in given for name in ADDITIONS)


def open_mixed(
    model: "LanguageModel", given: dict[str, Any], threads: int, gpu: "Gpu | None", reset_at_eos: bool = False
) -> "MixedModel":
    """Make the model that the options ask for, tuned if they say so. reset_at_eos: score each line by itself."""
    from neglm_cli.lm.adaptation import Adaptation
    from neglm_cli.lm.devices import make_device
    from neglm_cli.lm.mixing import MixedModel, Mixing
    from neglm_cli.lm.ngram import NgramModel

    def make(settings: Any, training: bool) -> Any:
        return make_device(
            model.parameters(), settings, model.words.counts, model.end_of_line, gpu, training, console.note
        )

    values = DEFAULTS | given
    ngram = NgramModel(values["interpolate"], model.words) if "interpolate" in values else None
    if ngram is not None and ngram.sharing_unknown > 1:
        console.note(
            f"{shown(values['interpolate'])} lacks {count_of(ngram.sharing_unknown - 1, 'word')} of the vocabulary of "
            f"{model.name}: they share the probability of its <unk>"
        )
    rate = _rate(given)
    mixing = Mixing(
        Adaptation(0.0 if rate is None else rate, values["adapt_decay"]) if "adapt" in values else None,
        values.get("cache", 0), values["cache_theta"], values["cache_weight"], ngram, values["interpolate_weight"],
    )  # fmt: skip
    mixed = MixedModel(make, replace(model.settings, threads=threads), mixing, reset_at_eos)
    if "tune" in given:
        _tune(mixed, model, given, threads)
    return mixed


def _tune(mixed: "MixedModel", model: "LanguageModel", given: dict[str, Any], threads: int) -> None:
    from neglm_cli.lm.tuning import Given, Tuner

    fixed = Given(
        _rate(given), given.get("adapt_decay"), given.get("cache_theta"), given.get("cache_weight"),
        given.get("interpolate_weight"),
    )  # fmt: skip
    ids = _read(given["tune"], model, threads)
    console.note(f"tuning on {shown(given['tune'])} ({len(ids):,} tokens with ends of line):")
    Tuner(mixed, ids, model.end_of_line, lambda trial: console.note(f"  {_trial(trial)}")).tune(fixed)
    console.note(f"chosen: {', '.join(chosen(mixed, given))}")


def _read(path: str, model: "LanguageModel", threads: int) -> "np.ndarray":
    import numpy as np

    from neglm_cli.runs.corpora import check_texts
    from neglm_cli.text.corpus import open_corpus
    from neglm_cli.text.encode import Encoder

    corpus = open_corpus([path])
    check_texts(corpus)
    encoder = Encoder(model.words, unknown=model.unknown)
    parts = [ids.copy() for _, ids in encoder.encode_corpus(corpus, threads)]
    ids = np.concatenate(parts).astype(np.int32) if parts else np.empty(0, np.int32)
    if not len(ids):
        raise NeglmError(f"{corpus.name} has no words: name a text with words in it")
    return ids


def _trial(trial: "Trial") -> str:
    values = "  ".join(f"{_option(NAMES[name])} {value:<8.4g}" for name, value in trial.values.items())
    figure = f"{trial.perplexity:.3f}" if math.isfinite(trial.perplexity) else "infinite: it diverges"
    return f"{values} perplexity {figure}"


def chosen(mixed: "MixedModel", given: dict[str, Any]) -> list[str]:
    """Return the values of all options that are in use, as options."""
    return [
        f"{_option(name)} {shown(value) if isinstance(value, str) else format(value, '.4g')}"
        for name, value in _values(mixed, given).items()
        if value is not None
    ]


def _values(mixed: "MixedModel", given: dict[str, Any]) -> dict[str, Any]:
    """Return the values of options, None for additions that are not there."""
    mixing = mixed.mixing
    rate, decay = mixing.adaptation or (None, None)
    with_cache = bool(mixing.cache)
    return {
        "adapt": rate,
        "adapt_decay": decay,
        "cache": mixing.cache if with_cache else None,
        "cache_theta": mixing.theta if with_cache else None,
        "cache_weight": mixing.cache_weight if with_cache else None,
        "interpolate": given.get("interpolate"),
        "interpolate_weight": mixing.ngram_weight if mixing.ngram is not None else None,
    }


def report(mixed: "MixedModel", given: dict[str, Any], scorer: "MixedScorer") -> dict[str, Any]:
    """Return the values that were used and the perplexities of models by themselves, for JSON."""
    values = _values(mixed, given)
    perplexities = scorer.perplexities
    return {
        "adapt_rate": values["adapt"],
        "adapt_decay": values["adapt_decay"],
        "cache_words": values["cache"],
        "cache_theta": values["cache_theta"],
        "cache_weight": values["cache_weight"],
        "ngram_model": values["interpolate"],
        "ngram_weight": values["interpolate_weight"],
        "model_perplexity": rounded(perplexities[0]),
        "ngram_perplexity": rounded(perplexities[-1]) if mixed.mixing.ngram is not None else None,
        "tuned_on": given.get("tune"),
    }


def report_text(found: dict[str, Any]) -> list[tuple[str, str]]:
    """Return rows of a report for people."""
    rows = []
    if found["adapt_rate"] is not None:
        rows.append(("adapted", f"rate {found['adapt_rate']:g}, decay {found['adapt_decay']:g}"))
    if found["cache_words"] is not None or found["ngram_model"] is not None:
        cache, ngram = found["cache_weight"] or 0.0, found["ngram_weight"] or 0.0
        parts = [f"{1 - cache - ngram:.3f} model ({found['model_perplexity']:,.3f} by itself)"]
        if found["cache_words"] is not None:
            parts.append(f"{cache:.3f} cache ({found['cache_words']:,} words, θ {found['cache_theta']:g})")
        if found["ngram_model"] is not None:
            parts.append(f"{ngram:.3f} {shown(found['ngram_model'])} ({found['ngram_perplexity']:,.3f} by itself)")
        rows.append(("mixture", " + ".join(parts)))
    rows.append(("tuned on", shown(found["tuned_on"]) if found["tuned_on"] else "no text: values as given"))
    return rows


def save_adapted(path: str, model: "LanguageModel", scorer: "MixedScorer") -> None:
    """Write the model as it is at the end of the text."""
    from neglm_cli.lm.model import MODEL, save

    save(
        path, MODEL, model.words, model.settings, model.files, model.validation, model.progress, scorer.parameters()
    )  # fmt: skip
    console.note(f"wrote {shown(path)}, adapted")


def _is_tuned(given: dict[str, Any], name: str) -> bool:
    return given.get(name) == AUTO if name == "adapt" else name not in given


def _rate(given: dict[str, Any]) -> float | None:
    """Return the learning rate; None if --tune chooses it, or nothing adapts."""
    text = given.get("adapt")
    if text is None or text == AUTO:
        return None
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not (math.isfinite(rate) and rate >= 0):
        raise typer.BadParameter(f"--adapt {text} is not a learning rate, such as 0.1, or auto.")
    return rate


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
