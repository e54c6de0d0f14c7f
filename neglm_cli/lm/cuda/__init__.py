"""The language model on NVIDIA GPUs: kernels with the names of the CPU's, and the device that launches them."""
