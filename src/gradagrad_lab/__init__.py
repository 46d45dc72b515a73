"""The experiments of the paper: data, problems, one training loop, figures and the report."""
