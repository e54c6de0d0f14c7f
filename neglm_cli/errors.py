"""What goes wrong in a way that the user can mend."""


class NeglmError(Exception):
    """One sentence: what is wrong, where, and what to do. The command line prints it and exits with 1."""
