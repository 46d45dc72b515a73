"""How runs are trained, tuned, recorded and read back."""
