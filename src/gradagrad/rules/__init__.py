"""The update rules, each written once, without a framework. Every backend runs these lines, or text made from them.

`rule` says what a rule is. `gradagrad` is the paper's rule, and `auto` is ours. `gradagrad.codegen` writes
source text from both.
"""
