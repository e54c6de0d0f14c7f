"""Declarations of settings, as metadata of a dataclass's fields."""

import types
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Union, get_args, get_origin, get_type_hints

MODEL, TRAINING, RUNTIME, INPUT = "Model", "Training", "Runtime", "Input"  # panels of --help
TEST_TIME = "At test time"

# How --help says the value of a preset, if not as `name: value`.
NAMED_PRESETS = {"pairs": "with --pairs {}", "cbow": "with --cbow {}"}


@dataclass(frozen=True)
class Declaration:
    """Properties of a setting besides its name, type and default."""

    help: str
    panel: str = MODEL
    metavar: str = "N"
    least: float | None = None
    most: float | None = None
    above: float | None = None  # an exclusive lower limit
    choices: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # of the option, where not only its own
    formerly: tuple[str, ...] = ()  # names in earlier versions, which options and stored settings may still have
    note: str = ""  # where the default comes from
    shown: str = ""  # the default in words, where it is no single value
    presets: Mapping[str, Any] = field(default_factory=dict)  # values by preset
    resumable: bool = False  # True if --resume may change it


def setting(default: Any, help: str, **declared: Any) -> Any:
    """Declare a field of a settings dataclass."""
    return field(default=default, metadata={"declaration": Declaration(help, **declared)})


@dataclass(frozen=True)
class Setting(Declaration):
    """A declared setting."""

    name: str = ""
    kind: type = str  # int, float, bool or str
    optional: bool = False  # True if it may be None
    default: Any = None

    @property
    def option(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    @property
    def default_text(self) -> str:
        """The default as --help shows it, with the values of presets."""
        text = self.shown or _plain(self.default) + (f", {self.note}" if self.note else "")
        for preset, value in self.presets.items():
            text += "; " + NAMED_PRESETS.get(preset, f"{preset}: {{}}").format(_plain(value))
        return text


def declared(settings: type) -> dict[str, Setting]:
    """Return the settings of a dataclass by name."""
    hints = get_type_hints(settings)
    found = {}
    for each in fields(settings):
        kind, optional = hints[each.name], False
        if get_origin(kind) in (Union, types.UnionType):
            (kind,), optional = (member for member in get_args(kind) if member is not type(None)), True
        declaration: Declaration = each.metadata["declaration"]
        found[each.name] = Setting(
            **vars(declaration), name=each.name, kind=kind, optional=optional, default=each.default
        )
    return found


def preset(settings: type, name: str) -> dict[str, Any]:
    """Return the values of a preset that differ from the defaults."""
    return {each.name: each.presets[name] for each in declared(settings).values() if name in each.presets}


def former_names(settings: type) -> dict[str, str]:
    """Return the names that settings had in earlier versions, each with its current name."""
    return {old: each.name for each in declared(settings).values() for old in each.formerly}


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
