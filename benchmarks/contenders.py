"""The contenders: our optimizers, torch's and the parameter-free peers."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from benchmarks.workloads import Workload
from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad.kernel.load import kernel_status
from gradagrad_lab.errors import UserError
from gradagrad_lab.methods import entry_of

Step = Callable[[], object]

# With this rate hundreds of steps on noise stay finite.
LR = 1e-6


@dataclass
class Contender:
    name: str
    family: str  # ours, torch, peers
    make: Callable[[Workload], Step]
    state_bytes: float = 0.0  # per element, measured after the first step


def _optimizer(
    name: str, family: str, factory: Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]
) -> Contender:
    def make(work: Workload) -> Step:
        optimizer = factory(work.params)  # pyright: ignore[reportArgumentType]
        if hasattr(optimizer, "train"):
            optimizer.train()  # pyright: ignore[reportAttributeAccessIssue]
        optimizer.step()
        held = [v for s in optimizer.state.values() for v in s.values()]
        # DoG keeps state in its param groups.
        held += [v for group in optimizer.param_groups for k, v in group.items() if k != "params"]
        tensors = [t for v in held for t in (v if isinstance(v, list) else [v]) if isinstance(t, torch.Tensor)]
        shared = {p.data_ptr() for p in work.params}
        total = sum(t.numel() * t.itemsize for t in tensors if t.numel() > 1 and t.data_ptr() not in shared)
        contender.state_bytes = total / work.elements
        return optimizer.step

    contender = Contender(name, family, make)
    return contender


def _ours(name: str, **options) -> Contender:
    return _optimizer(name, "ours", lambda params: GradaGrad(params, LR, **options))


def _auto(name: str, **options) -> Contender:
    return _optimizer(name, "ours", lambda params: AutoGradaGrad(params, LR, **options))


def ours() -> list[Contender]:
    bf16 = torch.bfloat16
    fast = [
        _ours("GradaGrad, element", fused=True),
        _ours("GradaGrad, element, momentum 0.9", fused=True, momentum=0.9),
        _ours("GradaGrad, element, bf16 state", fused=True, state_dtype=bf16),
        _ours("GradaGrad, element, bf16 state, momentum 0.9", fused=True, state_dtype=bf16, momentum=0.9),
        _ours("GradaGrad, row", fused=True, granularity="row"),
        _ours("GradaGrad, row, momentum 0.9", fused=True, granularity="row", momentum=0.9),
        _ours("GradaGrad, tensor", fused=True, granularity="tensor"),
        _ours("GradaGrad, group", fused=True, granularity="group"),
        _ours("GradaGrad, group, momentum 0.9", fused=True, granularity="group", momentum=0.9),
        _auto("AutoGradaGrad", fused=True),
        _auto("AutoGradaGrad, no guard", fused=True, guard=False),
        _auto("AutoGradaGrad, bf16 state", fused=True, state_dtype=bf16),
    ]
    slow = [
        _ours("GradaGrad, element, without the kernel", foreach=True, fused=False),
        _ours("GradaGrad, element, loop", foreach=False, fused=False),
    ]
    return (fast if kernel_status().loaded else []) + slow


def torch_ones() -> list[Contender]:
    optim = torch.optim
    return [
        _optimizer("Adam foreach", "torch", lambda p: optim.Adam(p, LR, foreach=True)),
        _optimizer("Adagrad fused", "torch", lambda p: optim.Adagrad(p, LR, fused=True)),
        _optimizer("Adagrad foreach", "torch", lambda p: optim.Adagrad(p, LR, foreach=True)),
        _optimizer("SGD fused, momentum", "torch", lambda p: optim.SGD(p, LR, momentum=0.9, fused=True)),
        _optimizer("SGD foreach, momentum", "torch", lambda p: optim.SGD(p, LR, momentum=0.9, foreach=True)),
    ]


def peers() -> list[Contender]:
    # On noise their step sizes would grow until they overflow. growth_rate=1 prevents that and costs the same.
    still = {"growth_rate": 1.0}
    options = {"schedulefree": {"lr": LR}, "radam_schedulefree": {"lr": LR}, "prodigy": still, "dadapt_adam": still}
    options |= {"prodigy_schedulefree": {"split_groups": False}, "dog": {}}
    try:
        makes = {entry_of(name).title: partial(entry_of(name).factory(), **own) for name, own in options.items()}
    except UserError as error:
        print(f"The other parameter-free methods are left out. {error.message}")
        return []
    return [_optimizer(title, "peers", make) for title, make in makes.items()]


def reference() -> Contender:
    return _optimizer("Adam fused", "torch", lambda p: torch.optim.Adam(p, LR, fused=True))


def sparse_reference() -> Contender:
    return _optimizer("Adagrad sparse", "torch", lambda p: torch.optim.Adagrad(p, LR))


def sparse_ones() -> list[Contender]:
    kernels = [
        _ours("GradaGrad, element, lazy", fused=True, lazy=True),
        _ours("GradaGrad, element", fused=True),
        _ours("GradaGrad, element, lazy, momentum 0.9", fused=True, lazy=True, momentum=0.9),
        _ours("GradaGrad, element, lazy, bf16 state", fused=True, lazy=True, state_dtype=torch.bfloat16),
        _ours("GradaGrad, row, lazy", fused=True, lazy=True, granularity="row"),
        _auto("AutoGradaGrad", fused=True),
        _auto("AutoGradaGrad, bf16 state", fused=True, state_dtype=torch.bfloat16),
    ]
    return [
        *(kernels if kernel_status().loaded else []),
        _ours("GradaGrad, element, lazy, torch operations", fused=False, lazy=True),
        _optimizer("SparseAdam", "torch", lambda p: torch.optim.SparseAdam(p, LR)),
    ]
