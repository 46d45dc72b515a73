"""The update rules, each written once, without a framework. All that steps runs these lines or text made from them.

`protocol` says what a rule is, `gradagrad` is the paper's, `auto` is ours, `trace` turns either into source text.
"""
