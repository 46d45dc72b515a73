"""DLRM on a stream of clicks: the rows, the model, and how its runs are trained."""
