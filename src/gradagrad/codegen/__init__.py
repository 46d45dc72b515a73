"""Source text from rules: a trace of a rule, and the C++ loops of the CPU kernel made from it."""
