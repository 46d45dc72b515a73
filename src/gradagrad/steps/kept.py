"""Tensors that the compiled kernel has handles of from step to step."""

import weakref
from operator import is_
from typing import Any

from torch import Tensor

# From here on, handing tensors over to the kernel is a good part of the time a step takes.
MANY = 16
Lists = tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor], list[Tensor]]


class Memory:
    """Lists that the kernel has handles of, so that a step hands over gradients alone. Belongs to one optimizer.

    Only handles: the tensors' memory, shapes and strides are read and checked at every step, and a list in which one
    tensor was exchanged for another is handed over anew.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Lists, int, weakref.finalize[Any, Any]]] = {}

    def keep(self, ops: Any, lists: Lists) -> tuple[Lists, int]:
        """What to pass instead of the lists: empty ones and the kernel's number for them."""
        key = id(lists[0][0])
        known = self._known.get(key)
        if known is None or not all(
            len(a) == len(b) and all(map(is_, a, b)) for a, b in zip(known[0], lists, strict=True)
        ):
            if known is not None:
                known[2]()
            number = ops.keep(*lists)
            known = (lists, number, weakref.finalize(self, ops.release, number))
            self._known[key] = known
        return ([], [], [], [], []), known[1]

    def clear(self) -> None:
        """Lets go of all tensors."""
        for *_, release in self._known.values():
            release()
        self._known.clear()
