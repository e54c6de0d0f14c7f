"""Trained vectors: the file, neighbours and analogies, how good they are, and the forms that other tools read."""
