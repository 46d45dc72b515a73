"""Edits saved state dicts in every place, with all kinds of wrong values, and loads them: refused, or good to use.

    python tools/edited_checkpoints.py [--every N]      every N-th edit; 1 means all, tens of thousands

An edit that is refused must change nothing and name the key; one that is accepted must leave an optimizer that steps to
finite numbers. Prints a table; exit code 1 if anything else happened.
"""

from __future__ import annotations

import argparse
import copy
import math
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch

from gradagrad import AutoGradaGrad, GradaGrad

MAKES: dict[str, Callable[[Any], Any]] = {
    "GradaGrad": lambda p: GradaGrad(p, lr=0.1),
    "row, momentum": lambda p: GradaGrad(p, lr=0.1, granularity="row", momentum=0.5, lazy=True),
    "group": lambda p: GradaGrad(p, lr=0.1, granularity="group"),
    "all": lambda p: GradaGrad(p, lr=0.1, granularity="all"),
    "bf16 state, bound": lambda p: GradaGrad(p, lr=0.1, state_dtype=torch.bfloat16, grad_bound=2.0),
    "AutoGradaGrad": lambda p: AutoGradaGrad(p),
    "averaging": lambda p: AutoGradaGrad(p, averaging="polynomial", scope="group"),
}
PLAIN = (
    *(None, "abc", "", b"x", {}, [], [1, 2], (), 0, 1, -1, 1.5, math.nan, math.inf, -math.inf, 10**400, 2**63, 1e300),
    *(True, object, torch.float32, 1j, "element", "group", "bfloat16", "Tensor"),
)
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.bool, torch.complex64)
NUMBERS = (0.0, 1.0, -1.0, 0.5, math.nan, math.inf, -math.inf, 1e-40)


def wrong_values(shape: tuple[int, ...]) -> Iterator[Any]:
    """What may stand in the place of a value, some of it right; the shape is that of what stood there."""
    yield from PLAIN
    for dtype in DTYPES:
        for size in {(), (1,), shape, (5,), (0,), (*shape, 1)}:
            for number in NUMBERS if dtype.is_floating_point else (0, 1, 100):
                yield torch.full(size, 0, dtype=dtype) + torch.tensor(number).to(dtype)
    yield from (torch.full(shape, -1), torch.full(shape, 2**62), torch.full(shape, 2**31 + 5))
    yield from (torch.empty(shape, device="meta"), torch.zeros(shape).to_sparse(), torch.ones(()).expand(shape))
    yield from (torch.nn.Parameter(torch.ones(shape)), torch.ones(shape, dtype=torch.complex64).conj().imag)


def trained(make: Callable[[Any], Any], *, sparse: bool) -> tuple[list[torch.nn.Parameter], Any]:
    """An optimizer after three steps."""
    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(3, 2)) for _ in range(2)]
    optimizer = make(params)
    for _ in range(3):
        for p in params:
            p.grad = p.detach() - 3.0
        if sparse:
            rows = torch.tensor([[0, 2]])
            params[1].grad = torch.sparse_coo_tensor(rows, torch.ones(2, 2), (3, 2), check_invariants=False)
        optimizer.step()
    return params, optimizer


def same(a: Any, b: Any) -> bool:
    """Whether two state dicts are equal, tensor by tensor."""
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    return a == b


def edits(saved: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], Any]]:
    """(key, dictionary in which it stands, value), one edit at a time."""
    state, group = saved["state"][1], saved["param_groups"][0]
    for key in [*state, "last_rows", "row_steps"]:
        shape = tuple(state[key].shape) if key in state else (3,)
        for value in wrong_values(shape):
            yield key, state, value
    for key in [*group, "initial_lr"]:
        for value in () if key == "projection" else wrong_values(()):  # which is never taken from a state dict
            yield key, group, value


def attempt(optimizer: Any, params: list[torch.nn.Parameter], edited: dict[str, Any], key: str) -> str:
    """What became of one edit: "refused", "accepted", or what is wrong."""
    before = copy.deepcopy(optimizer.state_dict())
    outcome = "accepted"
    try:
        optimizer.load_state_dict(edited)
    except ValueError as error:
        outcome = "refused" if same(before, optimizer.state_dict()) else "TORN"
        if not any(word in str(error) for word in (key, "lr", "param group", "state dict")):
            outcome = f"UNCLEAR: {error}"
    except Exception as error:
        return f"{type(error).__name__.upper()}: {error}"
    try:
        for p in params:
            p.grad = torch.ones_like(p)
        optimizer.step()
    except Exception as error:
        return f"CANNOT STEP: {type(error).__name__}: {error}"
    return outcome if all(torch.isfinite(p).all() for p in params) else "NOT FINITE"


def main() -> int:
    """All optimizers, all edits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=20)
    every = parser.parse_args().every
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print("| optimizer | edits | refused whole | accepted, good to use | anything else |\n|---|---|---|---|---|")
    wrong = 0
    for name, make in MAKES.items():
        tally: Counter[str] = Counter()
        for sparse in (False, True):
            params, optimizer = trained(make, sparse=sparse)
            saved = copy.deepcopy(optimizer.state_dict())
            number = 0
            for key, place, value in edits(saved):
                number += 1
                if number % every:
                    continue
                kept = {key: place[key]} if key in place else {}
                place[key] = value
                outcome = attempt(optimizer, params, saved, key)
                del place[key]
                place.update(kept)
                if outcome not in ("refused", "accepted"):
                    print(f"{name}: {key} = {' '.join(repr(value).split())[:60]}: {outcome}"[:300])
                    outcome = "wrong"
                tally[outcome] += 1
                if outcome != "refused" or tally.total() % 20 == 0:  # γ grows without end on a constant gradient
                    params, optimizer = trained(make, sparse=sparse)
        print(
            f"| {name} | {tally.total():,} | {tally['refused']:,} | {tally['accepted']:,} | {tally['wrong']} |",
            flush=True,
        )
        wrong += tally["wrong"]
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
