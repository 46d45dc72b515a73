"""Problems to minimise. A problem does not know the optimizers. It gives gradients and measures how good an iterate is.

`gradagrad_lab.stacked` says how its runs are trained together.
"""
