"""Problems to minimise. A problem knows no optimizer: it gives gradients and measures how good a point is.

How its runs are trained together is told by `gradagrad_lab.runs.strategies`: stacked, from a stream, or one by one.
"""
