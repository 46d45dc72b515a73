"""Projections onto convex sets, each exact in the diagonal metric of the step; see `gradagrad.projections.sets`."""

from gradagrad.projections.sets import Ball, Box, L1Ball, NonNegative, Projection, Simplex

__all__ = ["Ball", "Box", "L1Ball", "NonNegative", "Projection", "Simplex"]
