"""Corpora in memory."""

from neglm_cli.text.held import Held as Words

__all__ = ["Words"]
