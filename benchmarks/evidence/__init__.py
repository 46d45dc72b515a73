"""Whole trainings on real data, with test metrics: `python -m benchmarks.evidence`."""
