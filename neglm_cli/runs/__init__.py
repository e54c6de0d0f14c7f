"""Runs of `vocab`, `embed` and `train-lm`, for the command line and for Python programs.

A request (`train_lm.Request`) says what to train; `train` checks it, prepares a job and trains it with the loop in
`loop.py`: progress, checkpoints, signals, the best model, the final write. A `Host` is the program around the run.
"""
