"""Files of format version 1, written by commit 80120e2; see `make`."""
