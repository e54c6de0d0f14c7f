"""neglm: word embeddings and language models, both trained with the negative-sampling objective."""

__version__ = "0.1.0"
