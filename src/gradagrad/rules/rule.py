"""What a rule is: fields, and pure functions that measure, decide and move. No framework, no branch on data.

A step has four phases, of which a rule uses those it needs::

    measure   sums over whoever shares a decision (a *block*), before anything moves
    decide    the block's numbers for this step, and the *factors*: what the move multiplies with
    move      x and the element fields after this step, and *statistics*: what is to be summed for the phase below
    learn     the block's numbers for the next step, from the statistics

`GradaGrad` measures and decides for this step; `AutoGradaGrad` learns for the next one, so that one pass over memory
suffices. Since no function branches on data, running one on symbols yields straight-line source
(`gradagrad.codegen.trace`).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

# Arrays of any framework, 0-d ones and plain floats included; a rule asks only for arithmetic.
Array = Any
Values = Mapping[str, Array]
"""A tensor's numbers by name: ``x``, its gradient ``g``, and its element fields by key."""
Block = Mapping[str, Array]
"""The numbers of whoever shares a decision, by key."""

S = TypeVar("S", bound=tuple[Any, ...])
"""A rule's own NamedTuple of settings."""

PARAMETER = "point"
CLOCK = "clock"
"""The key of the block field that counts steps, if a rule has one; rows that rested catch up with it."""
PARAMETER_LANE = 4
"""The random bits of a parameter that is itself rounded stochastically."""


class Field(NamedTuple):
    """A piece of state. State dicts, shards, rounding, kernels and checks of checkpoints follow from this line."""

    key: str
    at: Literal["element", "block"]
    start: float | str = 0.0
    """A number, the name of a setting, or ``PARAMETER``: the parameter's own value."""
    least: float | str | None = None
    """The smallest value that can be right: a number or the name of a setting; None: any finite one."""
    lane: int = 0
    """Which 16 of an element's random bits round it where state is kept in bf16; fields that change together differ."""


class Ops(Protocol):
    """What a rule needs beyond ``+ - * /``, and the range of the numbers it computes in. NaN passes through all of
    it."""

    tiny: float
    """Smallest positive normal number: the floor of every divisor that may be zero."""
    largest: float
    """Largest finite number, at which what must not become infinite stops."""

    def sqrt(self, a: Array, /) -> Array: ...
    def maximum(self, a: Array, b: Array, /) -> Array: ...
    def minimum(self, a: Array, b: Array, /) -> Array: ...
    def where(self, condition: Array, a: Array, b: Array, /) -> Array: ...
    def less(self, a: Array, b: Array, /) -> Array: ...
    def indicator(self, a: Array, /) -> Array:
        """1 where ``a`` is not 0, and 0 where it is."""
        ...

    def narrow(self, a: Array, /) -> Array:
        """A block's number, worked out in double, in the precision of the arrays that it is about to meet."""
        ...


class Reduction(Protocol):
    """Sums over each block. For blocks of one element nothing is summed."""

    def dot(self, a: Array, b: Array, /) -> Array:
        """Σ a·b; NaN where an argument is, but never from finite ones: products stop at the largest number."""
        ...

    def total(self, a: Array, /) -> Array:
        """Σ a over what is finite, so that one spoilt element does not spoil what all share."""
        ...


class Rule(Protocol):
    """One optimizer's arithmetic. ``s`` is the rule's own NamedTuple of settings.

    A rule that is derived from this class may leave out what it does not need.
    """

    name: str
    numerator: str
    """The block field that lr multiplies to make γ."""
    denominator: str
    """The field under the root: above 0 where there has been a gradient."""

    def fields(self, s: Any) -> tuple[Field, ...]:
        """The state that these settings need."""
        ...

    def measures(self, s: Any) -> bool:
        """Whether `measure` is needed, and with it a look at the gradients before anything moves."""
        ...

    def learns(self, s: Any) -> bool:
        """Whether the move leaves statistics from which `learn` decides for the next step."""
        return False

    def measure(self, values: Values, s: Any, blocks: Reduction, ops: Ops) -> tuple[Array, ...]: ...
    def decide(
        self, sums: Sequence[Array], block: Block, s: Any, ops: Ops
    ) -> tuple[dict[str, Array], tuple[Array, ...]]:
        """(the block's numbers after this step, the factors of the move)."""
        ...

    def move(
        self,
        values: Values,
        factors: Sequence[Array],
        s: Any,
        blocks: Reduction,
        ops: Ops,
        touched: Array | None = None,
    ) -> tuple[dict[str, Array], tuple[Array, ...]]:
        """(``x`` and the element fields after this step, the statistics). Only what is ``touched`` changes."""
        ...

    def learn(self, statistics: Sequence[Array], block: Block, s: Any, ops: Ops) -> dict[str, Array]:
        """The block's numbers for the next step."""
        return dict(block)

    def rates(self, values: Values, block: Block, s: Any, ops: Ops) -> tuple[Array, Array, Array]:
        """For diagnostics: γ, the factor by which it differs from its start, and what a gradient is multiplied by."""
        ...

    decay_remedy: str
    """What to do instead of coupled decay with sparse gradients."""

    def unfit_for_rows(self, s: Any) -> str | None:
        """Why these settings cannot be used with sparse gradients, and the remedy; None if they can."""
        return None

    def needs_catch_up(self, s: Any) -> bool:
        """Whether a zero gradient changes state, so that rows a sparse gradient leaves out must be brought up to
        date."""
        return False

    def idle(self, values: Values, block: Block, since: Array, now: Array, s: Any, ops: Ops) -> dict[str, Array]:
        """Element and block fields of what was last touched at step ``since`` as they stand after step ``now``."""
        ...


def settings_of(kind: type[S], arguments: Mapping[str, Any], **others: Any) -> S:
    """A rule's settings from a user's arguments of the same names, and ``others``, which are not an argument as it is.

    A limit that is infinite becomes None, for which the rule has no operations.
    """
    names: tuple[str, ...] = kind._fields  # pyright: ignore[reportAttributeAccessIssue]  # as every NamedTuple has
    given = {name: arguments[name] for name in names if name in arguments} | others
    return kind(**{name: None if isinstance(a, float) and a == math.inf else a for name, a in given.items()})


def is_off(number: Array) -> bool:
    """Whether an option is a plain zero. A traced or symbolic number never is: nothing can be known of it."""
    return isinstance(number, int | float) and number == 0
