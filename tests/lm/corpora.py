"""Corpora in memory."""

from neglm_cli.text.encoded import InMemoryCorpus as Words

__all__ = ["Words"]
