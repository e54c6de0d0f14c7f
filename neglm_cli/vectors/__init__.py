"""Trained vectors: their file, nearest neighbors, analogies, evaluation, and other tools' formats."""
