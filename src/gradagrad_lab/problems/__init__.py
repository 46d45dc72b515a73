"""Problems to minimise. A problem knows no optimizer: it gives gradients and measures how good an iterate is.

`gradagrad_lab.runs.strategies` says how its runs are trained together.
"""
