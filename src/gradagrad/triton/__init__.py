"""The GPU backend: Triton kernels written from the rules."""
