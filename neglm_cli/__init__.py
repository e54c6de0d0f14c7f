"""neglm: word embeddings and language models, both trained with the negative-sampling objective.

`vocab`, `embed` and `train_lm` train; `load` opens their files. See `neglm_cli.api`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neglm_cli.api import LanguageModel as LanguageModel
    from neglm_cli.api import NeglmError as NeglmError
    from neglm_cli.api import Report as Report
    from neglm_cli.api import TextState as TextState
    from neglm_cli.api import Vocabulary as Vocabulary
    from neglm_cli.api import WordVectors as WordVectors
    from neglm_cli.api import embed as embed
    from neglm_cli.api import load as load
    from neglm_cli.api import tokenize as tokenize
    from neglm_cli.api import train_lm as train_lm
    from neglm_cli.api import vocab as vocab

__version__ = "0.2.0"

_API = (
    "LanguageModel", "NeglmError", "Report", "TextState", "Vocabulary", "WordVectors", "embed", "load", "train_lm",
    "tokenize", "vocab",
)  # fmt: skip


def __getattr__(name: str) -> object:
    """Import the Python API on first use: without NumPy and Numba, the command line starts faster."""
    if name not in _API:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from neglm_cli import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted([*_API, "__version__"])
