"""The backend that always works: the rules run on torch tensors."""
