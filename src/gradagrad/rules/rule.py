"""What a rule is: fields, and pure functions that measure, decide and move. No framework, no branch on data.

A step has four phases, of which a rule uses those it needs::

    measure   sums over a *block* (the elements that share a step size), before anything moves
    decide    the block's numbers for this step, and the *factors* that the move multiplies with
    move      x and the element fields after this step, and *statistics* to be summed over the block
    learn     the block's numbers for the next step, from the statistics and from what all blocks report

`GradaGrad` measures and decides for this step. `AutoGradaGrad` learns for the next one, so one pass over memory is
enough. No function branches on data, so running one on symbols yields straight-line source
(`gradagrad.codegen.trace`).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

# Arrays of any framework, including 0-d ones and plain floats; a rule only needs arithmetic.
Array = Any
Values = Mapping[str, Array]
"""A tensor's numbers by name: ``x``, its gradient ``g``, and its element fields by key."""
Block = Mapping[str, Array]
"""The numbers of a block and those that all blocks share, by key."""

S = TypeVar("S", bound=tuple[Any, ...])
"""A rule's own NamedTuple of settings."""

PARAMETER_LANE = 4
"""The random bits of a parameter that is itself rounded stochastically."""


class Field(NamedTuple):
    """A piece of state. State dicts, shards, rounding, kernels and checkpoint checks are derived from it."""

    key: str
    at: Literal["element", "block", "shared"]
    """Whether every element has one, every block, or the whole optimizer."""
    start: float | str = 0.0
    """A number or the name of a setting."""
    least: float | str | None = None
    """The smallest value that can be right: a number or the name of a setting; None: any finite one."""
    lane: int = 0
    """Which 16 of an element's random bits round it in bf16 state; fields that change together use different lanes."""


class Ops(Protocol):
    """What a rule needs beyond ``+ - * /``, and the limits of its arithmetic.

    NaN passes through every operation, but that of the bound ``b`` of a maximum or minimum need not.
    """

    tiny: float
    """Smallest positive normal number: the floor of every divisor that may be zero."""
    largest: float
    """Largest finite number: the ceiling of every number that must not become infinite."""

    def sqrt(self, a: Array, /) -> Array: ...
    def exp(self, a: Array, /) -> Array: ...
    def log(self, a: Array, /) -> Array: ...
    def maximum(self, a: Array, b: Array, /) -> Array: ...
    def minimum(self, a: Array, b: Array, /) -> Array: ...
    def where(self, condition: Array, a: Array, b: Array, /) -> Array: ...
    def less(self, a: Array, b: Array, /) -> Array: ...
    def indicator(self, a: Array, /) -> Array:
        """1 where ``a`` is not 0, and 0 where it is."""
        ...

    def narrow(self, a: Array, /) -> Array:
        """A block's number, computed in double, in the precision of the elements' arrays, and at most their largest."""
        ...


class Reduction(Protocol):
    """Sums over each block. For blocks of one element nothing is summed."""

    def dot(self, a: Array, b: Array, /) -> Array:
        """Σ a·b. NaN arguments give NaN; finite ones never do, because products stop at the largest number.

        Squares (``a is b``) need not stop: their sum may be infinite.
        """
        ...

    def total(self, a: Array, /) -> Array:
        """Σ a over the finite elements, so that one NaN does not ruin the whole block."""
        ...


class Rule(Protocol):
    """One optimizer's arithmetic. ``s`` is the rule's own NamedTuple of settings.

    A subclass may leave out what it does not need.
    """

    name: str
    numerator: str
    """The block field that lr multiplies to make γ."""
    denominator: str
    """The field under the root; it is above 0 once there has been a gradient."""
    common: str = ""
    """The shared field that stands for the numerators of all blocks; empty if there is none."""
    clock: str | None = None
    """The shared field that tells idle rows how long they have been idle; None: the parameter's count of steps."""
    measures: bool = False
    """Whether the gradients must be measured before anything moves."""
    learns: bool = False
    """Whether the move returns statistics, from which `learn` decides for the next step. A block is a tensor then.

    A step in which every gradient is zero changes nothing. Settings have a field ``moved`` for a device to say so.
    """

    def fields(self, s: Any) -> tuple[Field, ...]:
        """The state that these settings need."""
        ...

    def measure(self, values: Values, s: Any, sums: Reduction, ops: Ops) -> tuple[Array, ...]:
        """The sums that `decide` is given."""
        return ()

    def decide(
        self, sums: Sequence[Array], block: Block, s: Any, ops: Ops
    ) -> tuple[dict[str, Array], tuple[Array, ...]]:
        """(the block's numbers after this step, the factors of the move)."""
        ...

    def move(
        self, values: Values, factors: Sequence[Array], s: Any, sums: Reduction, ops: Ops, touched: Array = None
    ) -> tuple[dict[str, Array], tuple[Array, ...]]:
        """(``x`` and the element fields after this step, the statistics). Only what is ``touched`` changes.

        A rule that learns has a last factor that is not for elements: where it is 0, only the first statistic is used.
        """
        ...

    def report(self, statistics: Sequence[Array], block: Block, size: Array, s: Any, ops: Ops) -> tuple[Array, ...]:
        """What a block of ``size`` elements adds to the totals over all blocks."""
        return ()

    def learn(
        self, statistics: Sequence[Array], totals: Sequence[Array], block: Block, s: Any, ops: Ops
    ) -> dict[str, Array]:
        """The block's numbers for the next step. Shared ones follow from ``totals`` and shared ones alone."""
        return dict(block)

    def rates(self, values: Values, block: Block, s: Any, ops: Ops) -> tuple[Array, Array, Array]:
        """For diagnostics: γ, γ over its start, and the factor that multiplies a gradient."""
        ...

    def limited(self, shared: Mapping[str, float]) -> tuple[float, str]:
        """For diagnostics: the share of elements whose γ is above a limit, and what to say about it."""
        return 0.0, ""

    def effective_lr(self, gamma: float, steps: int) -> float:
        """γ as Adam counts learning rates: how far a step moves an element whose gradients keep their size."""
        ...

    def average(self, values: Values, s: Any) -> Array:
        """The average of the iterates; the last iterate, if the rule knows no average."""
        return values["x"]

    decay_remedy: str
    """What to do instead of coupled decay with sparse gradients."""

    def unfit_for_rows(self, s: Any) -> str | None:
        """Why these settings cannot be used with sparse gradients, and the remedy; None if they can."""
        return None

    def needs_catch_up(self, s: Any) -> bool:
        """Whether a zero gradient changes state, so that rows without a gradient must catch up later."""
        return False

    def idle(self, values: Values, block: Block, since: Array, now: Array, s: Any, ops: Ops) -> dict[str, Array]:
        """``x`` and the fields of a row that was up to date when the clock was at ``since``, as they are at ``now``."""
        ...


def settings_of(kind: type[S], arguments: Mapping[str, Any], **others: Any) -> S:
    """A rule's settings from the user's arguments of the same names; ``others`` come on top.

    An infinite limit becomes None, which removes its operations from the rule.
    """
    names: tuple[str, ...] = kind._fields  # pyright: ignore[reportAttributeAccessIssue]
    given = {name: arguments[name] for name in names if name in arguments} | others
    return kind(**{name: None if isinstance(a, float) and a == math.inf else a for name, a in given.items()})
