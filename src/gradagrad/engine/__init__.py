"""One engine for all rules: `step` orders things, `views` read and write tensors, `kernel` and `triton` are
backends."""
