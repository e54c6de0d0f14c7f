"""The kernels of a language model for processors, and the device made of them."""
