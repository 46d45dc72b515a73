"""Several processes, checkpoints, and the tools and frameworks people train with; all on the CPU with gloo."""
