"""Corpora: opening, splitting into words, counting, vocabulary, streams of ids."""
