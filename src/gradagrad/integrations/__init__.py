"""Callbacks for training frameworks, each in its own module, which imports its framework."""
