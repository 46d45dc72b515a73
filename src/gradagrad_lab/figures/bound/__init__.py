"""Theorem 3: its bound beside runs."""
