"""Calls the kernel's ops with arguments that no caller would pass. They must refuse them or stay within bounds.

    python tools/fuzz_ops.py [SECONDS]              under the address sanitizer: tools/sanitize_kernel.sh address
    python tools/fuzz_ops.py --only SEED            one call again

Records calls of real optimizers, dense and sparse, and repeats them with one to three arguments wrong: tensors of
other shapes, strides, precisions and layouts, shared or without memory; lists cut short or doubled; numbers of rules,
scopes, settings, kept lists and tickets that do not exist. All tensors lie between margins that must not change. A
child process makes the calls, so that a crash is counted and its seed named.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
import warnings
from collections import Counter
from functools import partial
from multiprocessing.sharedctypes import RawArray
from typing import Any

import torch
from common import forked
from torch import Tensor

from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad.kernel import load as kernel

MARGIN = 64  # bytes before and after each tensor
PATTERN = 0x5A
CALLS = 400  # per child process
KINDS = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.bool)
WHOLE = (-(2**63), -(2**31) - 1, -2, -1, 0, 1, 2, 3, 4, 5, 6, 63, 2**31, 2**62, 2**63 - 1)
OUTCOMES = ("refused with a message", "refused by code", "stepped", "WROTE OUTSIDE")
NUMBERS = (float("nan"), float("inf"), -float("inf"), -1.0, 0.0, 1e-310, 1e308)


def recorded() -> list[tuple[str, tuple[Any, ...]]]:
    """The calls that real optimizers make."""
    ops, calls = kernel.ops(), []
    if ops is None:
        raise SystemExit(f"the kernel is not loaded: {kernel.kernel_status()}")
    for name in ("prepare", "prepare_sparse"):
        inner = getattr(ops, name)
        setattr(ops, name, lambda *a, name=name, inner=inner: (calls.append((name, a)), inner(*a))[1])
    makes: list[Any] = [AutoGradaGrad]
    makes += [partial(GradaGrad, lr=0.1, granularity=scope) for scope in ("element", "row", "tensor", "group")]
    for make in makes:
        for options in ({}, {"momentum": 0.9}, {"state_dtype": torch.bfloat16, "stochastic_rounding": True}):
            for sparse in (False, True):
                shapes = [(4, 3)] if sparse else [(4, 3), (7,), (), (0, 2)]
                params = [torch.nn.Parameter(torch.ones(shape)) for shape in shapes]
                optimizer = make(params, **options)
                for _ in range(3):
                    for p in params:
                        p.grad = torch.ones(p.shape).to_sparse(1) if sparse else torch.ones(p.shape)
                    try:
                        optimizer.step()
                    except RuntimeError:  # momentum with sparse gradients needs lazy=True
                        break
    return calls


def fenced(a: Tensor, fences: list[tuple[Tensor, int]]) -> Tensor:
    """The same tensor between two margins."""
    if a.layout != torch.strided or a.device.type != "cpu":
        return a
    size = a.untyped_storage().nbytes()
    whole = torch.full((size + 2 * MARGIN,), PATTERN, dtype=torch.uint8)
    whole[MARGIN : MARGIN + size].copy_(torch.tensor(list(bytes(a.untyped_storage())), dtype=torch.uint8))
    fences.append((whole, size))
    place = whole[MARGIN : MARGIN + size].view(a.dtype) if size else torch.empty(0, dtype=a.dtype)
    return place.as_strided(a.shape, a.stride(), a.storage_offset() + place.storage_offset())


def wrong_tensor(a: Tensor, dice: random.Random, others: list[Tensor]) -> Any:
    """A tensor to pass instead of ``a``."""
    if a.layout != torch.strided:
        return torch.ones(3, 2)
    shape = tuple(dice.choice((0, 1, 2, 3, 4, 7)) for _ in range(dice.randrange(4)))
    choices = [
        lambda: a.to(dice.choice(KINDS)),
        lambda: torch.ones(shape, dtype=a.dtype),
        lambda: torch.ones(shape, dtype=dice.choice(KINDS)),
        lambda: torch.ones((2, 9)).to(a.dtype)[:, ::2],
        lambda: torch.ones(64, dtype=a.dtype).as_strided(a.shape, [dice.randrange(3) for _ in a.shape]),
        lambda: torch.ones((), dtype=a.dtype).expand(a.shape),
        lambda: a.t() if a.dim() == 2 else a,
        lambda: torch.empty(a.shape, dtype=a.dtype, device="meta"),
        lambda: torch.ones(3, 2).to_sparse(),
        lambda: torch.full_like(a, 10**9 if not a.is_floating_point() else float("nan")),
        lambda: torch.zeros_like(a) if a.dtype == torch.bool else -torch.ones_like(a),
        lambda: dice.choice(others),
    ]
    return dice.choice(choices)()


def wrong(argument: Any, dice: random.Random, others: list[Tensor]) -> Any:
    """A value to pass instead of the argument."""
    if isinstance(argument, Tensor):
        return wrong_tensor(argument, dice, others)
    if isinstance(argument, list) and argument and isinstance(argument[0], Tensor) and dice.random() < 0.7:
        place = dice.randrange(len(argument))
        return [*argument[:place], wrong_tensor(argument[place], dice, others), *argument[place + 1 :]]
    if isinstance(argument, list):
        place = dice.randrange(len(argument) + 1)
        changed = [dice.choice(NUMBERS) if isinstance(a, float) and dice.random() < 0.3 else a for a in argument]
        return dice.choice((argument[:place], argument[place:], argument * 2, [], changed))
    return dice.choice(WHOLE) if isinstance(argument, int) else argument


def tensors_in(arguments: tuple[Any, ...]) -> list[Tensor]:
    """All tensors among the arguments, including those in lists."""
    flat = [a for part in arguments for a in (part if isinstance(part, list) else [part])]
    return [a for a in flat if isinstance(a, Tensor)]


def call(seed: int, calls: list[tuple[str, tuple[Any, ...]]]) -> str:
    """Makes one wrong call and returns its outcome."""
    dice, ops = random.Random(seed), kernel.ops()
    name, arguments = dice.choice(calls)
    fences: list[tuple[Tensor, int]] = []
    changed: list[Any] = list(arguments)
    for _ in range(dice.randint(0, 3)):
        place = dice.randrange(len(changed))
        changed[place] = wrong(changed[place], dice, tensors_in(arguments))
    same: dict[int, Tensor] = {}

    def placed(a: Any) -> Any:
        if not isinstance(a, Tensor):
            return [placed(one) for one in a] if isinstance(a, list) else a
        if id(a) not in same:
            same[id(a)] = fenced(a.detach(), fences)
        return same[id(a)]

    outcome = "refused by code"
    try:
        code = getattr(ops, name)(*[placed(a) for a in changed])
        if code > 0:
            outcome = "stepped"
            for phase in dice.choice((("step_",), ("measure_", "move_", "write_blocks_"), ("move_",), ("measure_",))):
                shapes = [dice.choice(((1, 2), (1, 0), (3, 2), (0,), (1, 4))) for _ in "ab"]
                sums = [torch.zeros(shape, dtype=torch.float64) for shape in shapes]
                count = {"step_": 0, "measure_": 1}.get(phase, 2)
                getattr(ops, phase)(dice.choice((code, code, code, code + 1)), *sums[:count])
            ops.release_step(code)
    except (RuntimeError, TypeError, ValueError, IndexError, OverflowError, MemoryError, NotImplementedError):
        outcome = "refused with a message"
    for whole, size in fences:
        if not bool((whole[:MARGIN] == PATTERN).all() and (whole[MARGIN + size :] == PATTERN).all()):
            return "WROTE OUTSIDE"
    return outcome


def child(first: int, calls: list[tuple[str, tuple[Any, ...]]], shared: Any) -> None:
    """Makes many calls. The last seed and the counts lie in memory that outlives this process."""
    for seed in range(first, first + CALLS):
        shared[0] = seed
        outcome = call(seed, calls)
        if outcome == "WROTE OUTSIDE":
            print(f"--only {seed}: wrote outside of its tensors", flush=True)
        shared[1 + OUTCOMES.index(outcome)] += 1


def main() -> int:
    """Prints the outcomes; the exit code is 1 after a crash or a write outside."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", nargs="?", type=float, default=20.0)
    parser.add_argument("--only", type=int)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    calls = recorded()
    if options.only is not None:
        print(call(options.only, calls))
        return 0
    total, first, end = Counter(), 0, time.monotonic() + options.seconds
    while time.monotonic() < end:
        shared = RawArray("q", 1 + len(OUTCOMES))
        process = forked(partial(child, first, calls, shared))
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        seed, *counts = shared
        total.update(dict(zip(OUTCOMES, counts, strict=True)))
        if status:
            total["CRASHED"] += 1
            print(f"--only {seed}: {signal.Signals(-status).name if status < 0 else f'exit code {status}'}", flush=True)
        first = seed + 1
    print(f"| {' | '.join(total)} |\n|{'---|' * len(total)}\n| {' | '.join(f'{n:,}' for n in total.values())} |")
    return int(total["CRASHED"] + total["WROTE OUTSIDE"] > 0)


if __name__ == "__main__":
    sys.exit(main())
