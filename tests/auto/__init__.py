"""AutoGradaGrad against its oracle, as a torch optimizer, and its own features: averages and shared numbers."""
