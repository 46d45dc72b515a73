"""One experiment of the paper per module: each makes sure its records exist, then draws from them."""
