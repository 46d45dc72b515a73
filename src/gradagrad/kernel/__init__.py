"""The CPU backend: loads the compiled library and steps with it."""
