"""Criteo's own rows: reading the text file, and the binary cache that training reads."""
