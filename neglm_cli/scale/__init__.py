"""Ranks: the processes of a job, and the collective operations between them. A single process is a job of one rank."""
