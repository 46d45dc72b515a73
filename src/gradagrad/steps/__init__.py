"""Ways of applying the rule to many tensors: loop, foreach, sparse, fused."""
