"""The objective: negative sampling, its exact form, the PMI matrix it approximates, and random numbers."""
