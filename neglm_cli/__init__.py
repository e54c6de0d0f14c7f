"""neglm: word embeddings and language models, both trained with the negative-sampling objective."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neglm_cli.api import load as load

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """`neglm_cli.load`, which is imported only when somebody asks for it: the command line starts faster without."""
    if name == "load":
        from neglm_cli.api import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
