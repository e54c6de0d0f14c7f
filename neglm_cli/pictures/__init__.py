"""Pictures: of trainings, of vectors, and of what vectors have learned; for a file, or for a terminal."""
