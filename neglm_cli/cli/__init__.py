"""The command line: arguments in, tables and progress out, no mathematics.

Nothing here imports NumPy or Numba at the top of a module: `neglm --help` answers at once.
"""
