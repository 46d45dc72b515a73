"""The suite: AutoGradaGrad beside tuned and parameter-free optimizers on many small problems."""
