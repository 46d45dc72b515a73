"""Problems to minimise. A problem does not know the optimizers. It gives gradients and measures how good an iterate is.

`gradagrad_lab.stacked` trains many runs in one computation, `gradagrad_lab.single` one model with one optimizer.
"""
