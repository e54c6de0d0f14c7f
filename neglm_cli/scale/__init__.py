"""Several processes that work on one job: how many there are, and how they exchange arrays. One is the same with none
to talk to."""
