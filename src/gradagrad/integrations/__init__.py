"""Callbacks for training frameworks, each in a module of its own that imports its framework."""
