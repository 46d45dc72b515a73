"""A synthetic stream of clicks shaped like Criteo's."""
