"""One parameter at a time: the plainest driver of the rule, and the one every other is compared with."""

from collections.abc import Iterator

from torch import Tensor

from gradagrad import rounding
from gradagrad.steps.bundle import Batch, Bundle, Commit, Pair, slot_functions
from gradagrad.steps.ops import computing_dtype, real_view, tensor_ops


def gradient(batch: Batch, i: int, x: Tensor) -> Tensor:
    """The i-th parameter's gradient as the rule takes it; ``.grad`` itself is never written."""
    g = real_view(batch.grads[i]).to(x.dtype)
    if batch.maximize:
        g = -g
    return g + x * batch.coupled_decay if batch.coupled_decay else g


def bundles(batch: Batch) -> Iterator[Bundle]:
    """A bundle for each parameter."""
    total, touched = slot_functions(batch.granularity)
    for i, parameter in enumerate(batch.params):
        dtype = computing_dtype(parameter.dtype)
        x = real_view(parameter).to(dtype)
        m, growth, alpha = (t.to(dtype) for t in (batch.momenta[i], batch.growths[i], batch.accumulators[i]))
        if batch.differentiable:
            # What autograd saves must not be what the commit overwrites.
            x, m, growth, alpha = x.clone(), m.clone(), growth.clone(), alpha.clone()
        yield Bundle(
            x=x,
            g=gradient(batch, i, x),
            m=m,
            growth=growth,
            alpha=alpha,
            settings=batch.settings._replace(lr=batch.lr(i, dtype)),
            ops=tensor_ops(dtype),
            total=total,
            touched=touched,
            commit=_commit(batch, i),
        )


def _commit(batch: Batch, i: int) -> Commit:
    def commit(x: Tensor, m: Tensor, after: Pair) -> None:
        real_view(batch.params[i]).copy_(x)
        bits = rounding.bits_for(batch, i)
        rounding.store(batch.momenta[i], m, bits)
        if batch.granularity != "group":
            rounding.store(batch.growths[i], after[0], bits, high=True)
            rounding.store(batch.accumulators[i], after[1], bits, high=True)

    return commit
