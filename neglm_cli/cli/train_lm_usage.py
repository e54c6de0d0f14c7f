"""Which options of `neglm train-lm` go together."""

import os
from typing import Any

import typer

from neglm_cli.cli.corpora import PARTIAL, has_vocabulary, state_beside
from neglm_cli.settings.train_lm import PRESETS, Settings
from neglm_cli.store.output import STANDARD_OUTPUT, STANDARD_STREAM


def check_usage(
    given: dict[str, Any], preset: str, words: dict[str, Any], corpus: list[str], vocab: str | None,
    valid: list[str], resume: bool, dry_run: bool, model: str, log: str | None,
) -> None:  # fmt: skip
    loss = given.get("loss", Settings.loss)
    if not resume:
        if "log_z" in given and loss in ("neg", "softmax"):
            raise typer.BadParameter("--log-z is for --loss neglm, neglm-b and nce.")
        if "bias_init" in given and loss in ("neglm", "neg"):
            raise typer.BadParameter(f"--bias-init is for losses with a bias: {loss} has none.")
        if "adam" in given and (PRESETS[preset] | given).get("optimizer", Settings.optimizer) != "adam":
            raise typer.BadParameter("--adam is for --optimizer adam.")
        if "patience" in given and not valid:
            raise typer.BadParameter("--patience needs a text to validate on: give one with --valid.")
    for name, value in words.items():
        if value is not None and (resume or has_vocabulary(vocab)):
            option = name.replace("_", "-")
            raise typer.BadParameter(
                f"--{option} is for a text whose words are counted: there is a vocabulary already."
            )
    if [*corpus, *valid].count(STANDARD_STREAM) > 1:
        raise typer.BadParameter("standard input (-) can be read only once.")
    if resume and (vocab is not None or preset != "ptb"):
        raise typer.BadParameter("--resume has its vocabulary and settings already: leave out --vocab and --preset.")
    if resume and dry_run:
        raise typer.BadParameter("--dry-run tries a new training: leave out --resume.")
    state = state_beside(model)
    if resume and not state:
        raise typer.BadParameter("--resume needs the output of the interrupted run: name it with --output.")
    if valid and not state and not dry_run:
        raise typer.BadParameter("--valid keeps the best model in a file: name one with --output.")
    if log in STANDARD_OUTPUT:
        raise typer.BadParameter("--log needs the name of a file: standard output has the summary.")
    if log is not None and os.path.realpath(log) in (os.path.realpath(model), os.path.realpath(model + PARTIAL)):
        raise typer.BadParameter("--log and --output are the same file: name another.")
