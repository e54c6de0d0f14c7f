"""CPU kernels of the language model, and the device that runs them."""
