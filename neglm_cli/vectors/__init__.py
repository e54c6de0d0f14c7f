"""Trained vectors: their file, nearest neighbors, analogies, evaluation, and the forms of other tools."""
