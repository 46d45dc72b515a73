"""Several processes, checkpoints, and the tools and frameworks that people train with. Everything on the CPU with gloo."""
