"""The commands of `gradagrad`, one module each."""
