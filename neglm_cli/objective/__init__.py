"""The objective: negative sampling, what it approximates, and the random numbers it draws."""
