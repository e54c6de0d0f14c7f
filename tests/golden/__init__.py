"""Golden results: small trainings whose tensors must not change when the code is reorganized."""
