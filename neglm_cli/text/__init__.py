"""Corpora: opening files, tokenizing, counting, vocabularies, streams of word ids."""
