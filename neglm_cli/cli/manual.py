"""The man pages, from what --help shows and from the file format's schema: `python -m neglm_cli.cli.manual man`."""

import inspect
import sys
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

from neglm_cli.cli.app import DESCRIPTION, SUBCOMMANDS, SUMMARY, Subcommand
from neglm_cli.cli.commands import PANELS
from neglm_cli.cli.main import import_commands
from neglm_cli.cli.manual_format import format_page
from neglm_cli.cli.roff import bold, escape, italic, section, see_also, tagged, title, verbatim

import_commands()

CONVENTIONS = (
    "Results go to standard output, everything else to standard error. Every command has --help, --quiet and --debug, "
    "and --json where it prints results. `-` is standard input or output. Output files are written under a temporary "
    "name in the same directory and renamed when complete, so a run that fails never damages an old file.",
    "In JSON, `tokens` are running words and `vocabulary` is the number of distinct words of a model; `oov` counts "
    "tokens, pairs or questions with out-of-vocabulary words; `loss` is in nats, and other logarithms have their base "
    "or unit in the name; `output` is the file that was written.",
    "The first start after an install or an upgrade compiles the kernels, which takes some seconds, and says so.",
)
COMPLETION = (
    "neglm --install-completion sets up completion of subcommands and options for bash, zsh, fish and PowerShell; "
    "neglm --show-completion prints what it would add."
)
EXIT_STATUS = (
    ("0", "Success."),
    ("1", "Failure; one sentence on standard error says why."),
    ("2", "Usage error."),
    ("130, 143, 129", "Interrupted by Ctrl-C, terminated, or the terminal was closed."),
)
ENVIRONMENT = (
    ("NUMBA_CACHE_DIR", "Directory for compiled kernels; otherwise `neglm` in XDG_CACHE_HOME or in ~/.cache."),
    (
        "NEGLM_CACHE",
        "Directory for encoded copies of texts, 4 bytes a word; otherwise `neglm` in XDG_CACHE_HOME or in ~/.cache. "
        "Copies are checked before they are used, and can be deleted at any time: see neglm-cache(1).",
    ),
    (
        "NEGLM_CACHE_LIMIT",
        "Size that encoded copies may take together, such as 500M; otherwise 20G. Beyond it the least recently used "
        "ones are removed.",
    ),
    ("TMPDIR", "Directory for what outgrows memory."),
    ("NO_COLOR", "If set, no colors."),
)


class Parameter(NamedTuple):
    names: tuple[str, ...]
    metavar: str
    help: str
    default: str
    panel: str
    required: bool


def pages() -> dict[str, str]:
    """Return all man pages by file name."""
    names = ["neglm.1", *(f"neglm-{page.name}.1" for page in SUBCOMMANDS)]
    return {
        "neglm.1": main_page(),
        **{f"neglm-{page.name}.1": subcommand_page(page) for page in SUBCOMMANDS},
        "neglm-format.5": format_page(*names),
    }


def main_page() -> str:
    lines = title("neglm", 1, SUMMARY)
    lines += [".SH SYNOPSIS", f"{bold('neglm')} {italic('COMMAND')} [{italic('OPTIONS')}] ..."]
    lines += section("DESCRIPTION", DESCRIPTION)
    lines += [".SH COMMANDS"]
    for page in SUBCOMMANDS:
        lines += tagged(f"{bold(f'neglm-{page.name}')}(1)", page.paragraphs[0])
    lines += section("CONVENTIONS", *CONVENTIONS)
    lines += section("COMPLETION", COMPLETION)
    lines += _table("EXIT STATUS", EXIT_STATUS)
    lines += _table("ENVIRONMENT", ENVIRONMENT)
    lines += see_also(*(f"neglm-{page.name}.1" for page in SUBCOMMANDS), "neglm-format.5")
    return "\n".join(lines) + "\n"


def subcommand_page(page: Subcommand) -> str:
    arguments, options = parameters(page)
    lines = title(f"neglm-{page.name}", 1, page.paragraphs[0])
    names = [italic(each.metavar) if each.required else f"[{italic(each.metavar)}]" for each in arguments]
    required = [f"{bold(each.names[-1])} {italic(each.metavar)}" for each in options if each.required]
    usage = (
        [*names, f"[{italic('OPTIONS')}]"]
        if page.multi_value_options
        else [f"[{italic('OPTIONS')}]", *required, *names]
    )
    lines += [".SH SYNOPSIS", f"{bold(f'neglm {page.name}')} {' '.join(usage)}"]
    lines += section("DESCRIPTION", *page.paragraphs)
    lines += _table("ARGUMENTS", [(argument.metavar, _help(argument)) for argument in arguments])
    lines += [".SH OPTIONS"]
    for panel in sorted({option.panel for option in options}, key=PANELS.index):
        lines += [f".SS {panel}"]
        for option in options:
            if option.panel == panel:
                metavar = f" {italic(option.metavar)}" if option.metavar else ""
                lines += tagged(", ".join(bold(name) + metavar for name in option.names), _help(option))
    lines += [".SS Help", *tagged(f"{bold('--help')}, {bold('-h')}", "Show a summary of the options.")]
    lines += [".SH EXAMPLES"]
    for command, meaning in page.examples:
        lines += [".PP", escape(meaning), *verbatim(f"$ {command}")]
    lines += _table("EXIT STATUS", EXIT_STATUS)
    lines += _table("ENVIRONMENT", ENVIRONMENT)
    others = (f"neglm-{other.name}.1" for other in SUBCOMMANDS if other.name != page.name)
    lines += see_also("neglm.1", *others, "neglm-format.5")
    return "\n".join(lines) + "\n"


def parameters(page: Subcommand) -> tuple[list[Parameter], list[Parameter]]:
    """Return a subcommand's arguments and options, from its signature."""
    hints = get_type_hints(page.function, include_extras=True)
    arguments: list[Parameter] = []
    options: list[Parameter] = []
    for name, parameter in inspect.signature(page.function).parameters.items():
        assert get_origin(hints[name]) is Annotated
        kind, info = get_args(hints[name])[:2]
        if info.hidden:
            continue
        several = any(get_origin(each) is list for each in (kind, *get_args(kind)))  # perhaps `list[str] | None`
        declared = (
            info.default,
            *(info.param_decls or ()),
        )  # inside Annotated, Typer keeps the first name as `default`
        found = Parameter(
            names=tuple(part for d in declared if isinstance(d, str) for part in d.split("/"))
            or (f"--{name.replace('_', '-')}",),
            metavar=(info.metavar or "") + ("..." if several else ""),
            help=info.help,
            default=_default(info, parameter.default),
            panel=info.rich_help_panel or "",
            required=parameter.default is inspect.Parameter.empty,
        )
        (arguments if type(info).__name__ == "ArgumentInfo" else options).append(found)
    return arguments, options


def _help(parameter: Parameter) -> str:
    required = " Required." if parameter.required and parameter.names[0].startswith("-") else ""
    return parameter.help + (f" Default: {parameter.default}." if parameter.default else required)


def _default(info: Any, default: Any) -> str:
    if isinstance(info.show_default, str):
        return info.show_default
    if default is inspect.Parameter.empty or isinstance(default, bool) or default is None:
        return ""
    return str(default)


def _table(name: str, rows: Any) -> list[str]:
    return [f".SH {name}"] + [line for tag, text in rows for line in tagged(bold(tag), text)]


if __name__ == "__main__":
    for name, text in pages().items():
        path = Path(sys.argv[1], name)
        path.write_text(text, encoding="utf-8")
        print(path)
