"""Whole trainings on real data, with test metrics: `python -m gradagrad_lab.evidence`."""
