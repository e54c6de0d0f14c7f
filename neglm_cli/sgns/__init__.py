"""Skip-gram with negative sampling: kernels and trainer."""
