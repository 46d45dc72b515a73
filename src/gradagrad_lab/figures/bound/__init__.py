"""Theorem 3: its bound, its proof, and how gradients agree."""
