"""The optimizers that are compared, where the search of their rates begins, and the rows of the tables."""

from typing import Any, NamedTuple

from torch import nn, optim

from gradagrad_lab.methods import OPTIMIZERS, VARIANTS, Entry, fall

Parameters = list[nn.Parameter]
OURS = "AutoGradaGrad"
GRID = range(-14, 5)  # places of learning rates: 10^(place/2)
_RIVALS = [entry.title for entry in (*OPTIMIZERS.values(), *VARIANTS) if entry.evidence]
METHODS: dict[str, Entry] = {entry.title: entry for entry in (*OPTIMIZERS.values(), *VARIANTS)}
START = {
    **dict.fromkeys(("AdamW", "AdamW, cosine", "AdamW, warm-up, cosine, clipping"), (-8, -6, -4)),
    **dict.fromkeys(("SGD", "SGD, cosine"), (-4, -2, 0)),
    "Schedule-Free AdamW": (-6, -4),
    "AdaGrad": (-6, -4, -2),
}
"""The places where tuning begins."""
_SWEPT = ("AdamW", "AdamW, cosine", "SGD, cosine", "Schedule-Free AdamW", "Prodigy", "AdaGrad", f"{OURS}, γ₀")
SWEEPS = {**dict.fromkeys(_SWEPT, range(-12, 1)), OURS: range(-12, 1, 2)}  # 1e-6 to 1; ours is flat by construction


def make(entry: Entry, dense: Parameters, tables: Parameters, value: float, steps: int) -> list[Any]:
    """A method's optimizers: one of all parameters, or one of their own for tables with sparse gradients."""
    options: dict[str, Any] = {entry.varied: value, "steps": steps}
    if not entry.tables or not tables:
        return [entry.build([*dense, *tables], **options)]
    if entry.tables == "rows":
        by_row = {"params": tables, "lr": 10 * value, "granularity": "row", "lazy": True}
        return [entry.build([{"params": dense}, by_row], **options)]
    sparse = getattr(optim, entry.tables)(tables, value)
    if entry.cosine:
        fall(sparse, steps)
    return [entry.build(dense, **options), sparse]


class Row(NamedTuple):
    """A row of a table: a method at its default or at its best learning rate, at the last iterate or averaged."""

    method: str
    tuned: bool = False
    averaged: bool = False

    @property
    def label(self) -> str:
        words = ", tuned" if self.tuned else ", as documented" if self.method.startswith("Grada") else ", default"
        name = self.method.replace(OURS, f"**{OURS}**").replace(", as", " as").replace(", ", " + ")
        return name + words * (self.method not in (OURS, "Prodigy, as advised")) + ", averaged" * self.averaged


COSINE, USUAL = Row("AdamW, cosine", tuned=True), Row("AdamW, warm-up, cosine, clipping", tuned=True)
"""The rivals to beat: the second one for transformers on text, as they are usually trained."""
FREE, TUNED_FREE, AVERAGED = Row("Schedule-Free AdamW"), Row("Schedule-Free AdamW", True), Row(OURS, averaged=True)
_TORCH = (Row("AdamW", True), Row("AdamW", True, True), Row("AdamW"), Row("SGD, cosine", True), Row("SGD", True))
PLUS, RADAM = Row("Prodigy + Schedule-Free"), Row("Schedule-Free RAdam")
UNTUNED = (FREE, *(Row(name) for name in _RIVALS if name != FREE.method))
_GRADAGRAD = (Row("GradaGrad"), Row("GradaGrad by element"), Row(OURS), AVERAGED)
ROWS = (USUAL, COSINE, *_TORCH, TUNED_FREE, *UNTUNED, Row("AdaGrad", tuned=True), *_GRADAGRAD)
