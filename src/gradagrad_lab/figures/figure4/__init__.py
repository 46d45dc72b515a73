"""Figure 4: a click model on Criteo or on rows shaped like it."""
