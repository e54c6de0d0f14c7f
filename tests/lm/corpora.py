"""In-memory corpora."""

from neglm_cli.text.held import Held as Words

__all__ = ["Words"]
