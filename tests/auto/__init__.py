"""AutoGradaGrad: against its oracle, as a torch optimizer, and what it alone has: averages and shared numbers."""
