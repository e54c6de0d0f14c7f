"""Which options of `neglm train-lm` go together."""

import os
from typing import Any

import typer

from neglm_cli.cli.corpora import PARTIAL, has_vocabulary, state_beside
from neglm_cli.store.output import STANDARD_OUTPUT, STANDARD_STREAM

MOST = 1000  # of a number that parameters start with, or that is added to scores


def check_usage(
    given: dict[str, Any], preset: str, words: dict[str, Any], corpus: list[str], vocab: str | None,
    valid: list[str], resume: bool, dry_run: bool, model: str, log: str | None,
) -> None:  # fmt: skip
    _check_numbers(given)
    loss = given.get("loss", "neglm")
    if not resume:
        if "log_z" in given and loss in ("neg", "softmax"):
            raise typer.BadParameter("--log-z is for --loss neglm, neglm-b and nce.")
        if "bias_init" in given and loss in ("neglm", "neg"):
            raise typer.BadParameter(f"--bias-init is for losses with a bias: {loss} has none.")
        if "adam" in given and given.get("optimizer", "adam" if preset == "1b" else "sgd") != "adam":
            raise typer.BadParameter("--adam is for --optimizer adam.")
        if "patience" in given and not valid:
            raise typer.BadParameter("--patience needs a text to validate on: give one with --valid.")
    for name, value in words.items():
        if value is not None and (resume or has_vocabulary(vocab)):
            option = name.replace("_", "-")
            raise typer.BadParameter(f"--{option} is for a text that is counted here: there is a vocabulary already.")
    if [*corpus, *valid].count(STANDARD_STREAM) > 1:
        raise typer.BadParameter("standard input (-) can be read only once.")
    if resume and (vocab is not None or preset != "ptb"):
        raise typer.BadParameter("--resume has its words and options already: leave out --vocab and --preset.")
    if resume and dry_run:
        raise typer.BadParameter("--dry-run tries a new training: leave out --resume.")
    state = state_beside(model)
    if resume and not state:
        raise typer.BadParameter("--resume needs the name of the model that was being made: give it with --model.")
    if valid and not state and not dry_run:
        raise typer.BadParameter("--valid keeps the best model in a file: name one with --model.")
    if log in STANDARD_OUTPUT:
        raise typer.BadParameter("--log needs the name of a file: standard output has the summary.")
    if log is not None and os.path.realpath(log) in (os.path.realpath(model), os.path.realpath(model + PARTIAL)):
        raise typer.BadParameter("--log and --model are the same file: name another.")


def _check_numbers(given: dict[str, Any]) -> None:
    for name in ("lr", "clip"):
        if name in given and not 0 < given[name] < float("inf"):
            raise typer.BadParameter(f"--{name} {given[name]:g} must be a finite number above 0.")
    for name in ("dropout", "decay"):
        if not abs(given.get(name, 0)) < float("inf"):
            raise typer.BadParameter(f"--{name} must be a finite number.")
    for name in ("log_z", "bias_init", "init", "init_output"):
        if not abs(given.get(name, 0)) <= MOST:
            raise typer.BadParameter(f"--{name.replace('_', '-')} must be a number from -{MOST} to {MOST}.")
