"""AutoGradaGrad's rule where there may be no double precision: the sum of weights in units that float32 can hold.

A weight is k⁶·G², so the sum of all weights is about k⁷·G²/7. Both k and G range over many powers of ten, and float32
ends at 3e38. In units of G² the sum depends on k alone, from 1 to 6e49 at the step where float32 can count no further;
a constant factor moves this range to the middle of what float32 can hold. Nothing else changes, because only ratios of
sums of weights are ever used.
"""

from collections.abc import Sequence

from gradagrad.rules.auto import AutoRule, Settings
from gradagrad.rules.rule import Array, Block, Ops

UNIT = 2.0**-60
"""The value of G in a weight."""


class SingleRule(AutoRule):
    """The rule with the field "weight_total" in units of (G/``UNIT``)²."""

    def weight(self, k: Array, block: Block, ops: Ops) -> Array:
        root = ops.minimum(k * k * k * UNIT, ops.largest)  # Without the bound XLA computes k⁶, which overflows.
        return root * root

    def learn(
        self, statistics: Sequence[Array], totals: Sequence[Array], block: Block, s: Settings, ops: Ops
    ) -> dict[str, Array]:
        after = super().learn(statistics, totals, block, s, ops)
        change = block["common_gamma"] / after["common_gamma"]
        return {**after, "weight_total": ops.minimum(after["weight_total"] * change * change, ops.largest)}


RULE = SingleRule()
