"""The scope of a block: one `element`, a first-dimension slice (`row`), a `tensor`, a param `group`, or `all`.

The scope decides only what is summed, and the shape of a block's state. Shapes are those of the real view: a complex
parameter counts as real pairs.
"""

from collections.abc import Sequence
from typing import Literal, get_args

Scope = Literal["element", "row", "tensor", "group", "all"]
SCOPES: tuple[str, ...] = get_args(Scope)
SHARED = ("group", "all")
"""Scopes whose block belongs to several parameters."""
SINGLE = ("tensor", *SHARED)
"""Scopes whose block is one number for each field, kept in double."""


def block_shape(shape: Sequence[int], scope: str) -> tuple[int, ...]:
    """Shape of a block field for a parameter of this shape; broadcasts against the parameter."""
    if scope == "element":
        return tuple(shape)
    if scope == "row":
        return (*shape[:1], *(1 for _ in shape[1:]))
    return ()
