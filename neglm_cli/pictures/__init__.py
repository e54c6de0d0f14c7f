"""Figures of learning curves, word maps and PMI, for files and terminals."""
