"""Options of earlier versions: still accepted, shown nowhere, each use with a note that says the new name."""

from collections.abc import Iterator, Mapping

from neglm_cli.settings.declare import former_names

RENAMED: Mapping[str, Mapping[str, str]] = {  # by subcommand: an option, perhaps with its value, for each old name
    "vocab": {"--text": "--format text", "--word2vec": "--format word2vec"},
    "phrases": {"--score": "--measure"},
    "embed": {"--init": "--init-vectors"},
    "train-lm": {"--model": "--output", "--init-embeddings": "--init-vectors", "--max-size": "--max-vocab"},
    "eval": {"--restrict": "--max-vocab"},
    "score": {"--words": "--per-word", "--unnormalised": "--unnormalized"},
    "generate": {"--words": "--max-words"},
    "plot": {"--words": "--max-vocab", "--method": "--projection"},
    "export": {"--form": "--format", "--top": "--max-vocab", "--normalise": "--normalize"},
    "import": {"--form": "--format", "--words": "--word-list", "--contexts": "--context-file"},
}


def renamed_options(subcommand: str, settings: type | None = None) -> dict[str, str]:
    """Return the old options of a subcommand, including those of its settings, each with what replaces it."""
    old = {} if settings is None else former_names(settings)
    return {_option(name): _option(now) for name, now in old.items()} | dict(RENAMED.get(subcommand, {}))


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def with_new_names(
    arguments: list[str], renamed: Mapping[str, str], takes_value: Mapping[str, bool]
) -> tuple[list[str], list[str]]:
    """Replace old options. Return the new command line, and a note for each old option that was used.

    takes_value: True for options followed by a value, which may look like an option.
    """
    values = dict(takes_value) | {old: takes_value.get(new, False) for old, new in renamed.items()}
    result: dict[int, list[str]] = {position: [argument] for position, argument in enumerate(arguments)}
    notes: dict[str, None] = {}
    for position in option_positions(arguments, values):
        old, equals, value = arguments[position].partition("=")
        new = renamed.get(old, "")
        if new and not (equals and " " in new):
            first, *rest = new.split()
            result[position] = [f"{first}{equals}{value}", *rest]
            notes[f"note: {old} is now {new}"] = None
    return [argument for part in result.values() for argument in part], list(notes)


def option_positions(arguments: list[str], takes_value: Mapping[str, bool]) -> Iterator[int]:
    """Yield the positions of options, as opposed to arguments and values. After `--` there are none."""
    is_value = False
    for position, argument in enumerate(arguments):
        if argument == "--" and not is_value:
            return
        if not is_value and argument.startswith("-") and argument != "-":
            yield position
        is_value = not is_value and takes_value.get(argument, False)
