"""The area "torch" of `tools/fuzz.py`: an optimizer with random settings, its parameters, and hostile gradients.

The gradients lie between the smallest and the largest number of their precision,
with zeros, repetitions, sign changes and sometimes NaN and infinity. They are dense or sparse. Two backends step the
case, and both start every step from the same state. Each step must keep the

guarantees  γ of GradaGrad and α never fall. γ stays below its cap, and the restricted increase limits its growth. γ of
            AutoGradaGrad changes by at most a tenth, besides the pull to the mean. An element without a gradient
            keeps its state; AutoGradaGrad's goes on towards z. NaN and infinity stay in the blocks whose gradients had
            them.
agreement   The two backends differ by a few units in the last place, or by less than the first one differs from itself
            when the last digit of its gradients changes.
"""

from __future__ import annotations

import copy
import math
import random
from collections import Counter
from typing import Any

import torch
from fuzz_inputs import Gradients, options_of
from torch import Tensor

from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad.engine.state import begin
from gradagrad.kernel.load import kernel_status

FLOATS = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16}
STEPS = 10
LARGEST = 1e150  # its square is still a finite double


class ViolationError(Exception):
    """A guarantee was broken, or two backends disagree."""


class Case:
    """One optimizer with two backends, its gradients, and which elements are ruined by NaN or infinity."""

    def __init__(self, seed: int, elements: int) -> None:
        dice = random.Random(seed)
        self.auto = dice.random() < 0.3
        self.options = options_of(dice, self.auto)
        self.dtype = dice.choice(list(FLOATS))
        self.sparse = dice.random() < 0.25
        backends: list[dict[str, Any]] = [{"foreach": True}]
        if kernel_status().loaded:
            backends += [{"fused": None}] * 3
        self.backend = dice.choice(backends)
        rows = dice.choice((1, 3, 17))
        shapes = [(rows, max(elements // (2 * rows), 1)), (max(elements // 3, 1),), (), (0, 3), (elements // 6 + 1, 1)]
        shapes = shapes[: dice.choice((1, 2, 5))]
        generator = torch.Generator().manual_seed(seed)
        start = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
        self.params = [torch.nn.Parameter(a.to(FLOATS[self.dtype])) for a in start]
        self.others = copy.deepcopy(self.params)
        half = dice.random() < 0.3 and len(shapes) > 1
        make: Any = AutoGradaGrad if self.auto else GradaGrad
        self.optimizers = [
            make([{"params": p[:1]}, {"params": p[1:]}] if half else p, **self.options, **backend)
            for p, backend in ((self.params, {"fused": False, "foreach": False}), (self.others, self.backend))
        ]
        ruining, largest = dice.random() < 0.2, 25.0 if self.auto else math.inf
        self.gradients = Gradients(dice, self.params, sparse=self.sparse, ruining=ruining, largest=largest)
        self.ruined = [torch.zeros(p.shape, dtype=torch.bool) for p in self.params]
        self.ill = 0
        self.scope = "tensor" if self.auto else self.options["granularity"]

    @property
    def family(self) -> str:
        return "AutoGradaGrad" if self.auto else f"GradaGrad, {self.scope}"

    def step(self) -> None:
        ours, theirs = self.optimizers
        grads = self.gradients.draw()
        for params in (self.params, self.others):
            for p, g in zip(params, grads, strict=True):
                p.grad = g.clone()
        before = self._snapshot()
        ours.step()
        theirs.step()
        after = self._snapshot()
        self._guarantees(before, after, grads)
        self._agreement(before, grads)
        self._align()

    def _snapshot(self) -> list[dict[str, Tensor]]:
        state = self.optimizers[0].state
        return [{"x": p.detach().clone()} | {k: v.clone() for k, v in state[p].items()} for p in self.params]

    def _align(self) -> None:
        """Copies the state of the first backend to the second, so that differences do not add up."""
        ours, theirs = self.optimizers
        with torch.no_grad():
            for p, q in zip(self.params, self.others, strict=True):
                q.copy_(p)
                for key, value in ours.state[p].items():
                    if key in theirs.state[q]:
                        theirs.state[q][key].copy_(value)

    def _guarantees(self, before: list[dict[str, Tensor]], after: list[dict[str, Tensor]], grads: list[Tensor]) -> None:
        ruined_before = self.ruined
        dense = [g.to_dense() if g.layout != torch.strided else g for g in grads]
        keys = ("offset", "displacement") if self.auto else ("momentum",)
        self.ruined = [
            s
            | ~torch.isfinite(g)
            | ~torch.isfinite(old["x"])
            | ~torch.isfinite(new["x"])
            | torch.stack([~(new[key].abs() < LARGEST) for key in keys]).any(0)
            for s, g, old, new in zip(self.ruined, dense, before, after, strict=True)
        ]
        for i, (old, new, g) in enumerate(zip(before, after, dense, strict=True)):
            if "step" not in old:  # the first step
                continue
            fine, own = ~self.ruined[i], None
            require(not new["x"][fine & ~ruined_before[i]].isnan().any(), "finite numbers made a NaN")
            if self.auto:
                self._auto_guarantees(old, new, g, fine)
                self._votes(old, new, before)
                continue
            own = self._blocks(i, fine)
            growth, alpha = (new[key].double()[own] for key in ("growth", "accumulator"))
            require(bool(torch.isfinite(growth).all()), "growth is not finite")
            require(bool(torch.isfinite(alpha).all()), "the accumulator is not finite")
            require(bool((growth >= old["growth"].double()[own]).all()), "growth fell")
            require(bool((alpha >= old["accumulator"].double()[own]).all()), "the accumulator fell")
            self._increase(old, new, g, fine)
            idle = (g == 0) & fine
            if self.options["momentum"] == 0 and not self._decays() and self.options.get("projection") is None:
                require(torch.equal(new["x"][idle], old["x"][idle]), "a zero gradient moved something")

    def _decays(self) -> bool:
        return "weight_decay" in self.options

    def _blocks(self, i: int, fine: Tensor) -> Tensor:
        """The blocks of the i-th parameter that have seen only finite numbers."""
        if self.scope == "element":
            return fine
        if self.scope == "row":
            return fine.flatten(1).all(1).reshape(-1, *[1] * (fine.dim() - 1)) if fine.dim() > 1 else fine
        groups = self.optimizers[0].param_groups
        sharing = {"tensor": [[p] for p in self.params], "group": [g["params"] for g in groups], "all": [self.params]}
        members = next(ids for m in sharing[self.scope] if id(self.params[i]) in (ids := {id(p) for p in m}))
        own = [ruined for p, ruined in zip(self.params, self.ruined, strict=True) if id(p) in members]
        return torch.tensor(not any(bool(ruined.any()) for ruined in own))

    def _increase(self, old: dict[str, Tensor], new: dict[str, Tensor], g: Tensor, fine: Tensor) -> None:
        """Restricted increase: γ'/γ ≤ max(ρ·gm/gg, 1), checked where a block is one element, and the cap on γ."""
        factor = new["growth"].double() / old["growth"].double()
        if "growth_limit" in self.options and self.options.get("state_dtype") is None:
            own = torch.isfinite(factor)
            require(bool((factor[own] <= self.options["growth_limit"] * (1 + 1e-6)).all()), "γ grew beyond its limit")
        if "gamma_max" in self.options and self.options["lr"] and self.options.get("state_dtype") is None:
            lr = self.options["lr"] / (1.0 + int(old["step"]) * self.options.get("lr_decay", 0.0))
            cap = max(self.options["gamma_max"] / lr, 1.0)
            own = torch.isfinite(factor)
            require(bool((new["growth"].double()[own] <= cap * (1 + 1e-6)).all()), "γ is above its cap")
        if self.scope != "element" or self.options.get("state_dtype") or self._decays() or "maximize" in self.options:
            return
        a, m = g.double(), old["momentum"].double()
        # Only numbers whose products float32 represents with full precision.
        sane = fine & (a.abs() > 1e-18) & (a.abs() < 1e18) & (m.abs() < 1e18) & ((a * m).abs() > 1e-37)
        ratio = (self.options["rho"] * m / a).clamp(min=1.0)
        require(bool((factor[sane] <= ratio[sane] * (1 + 1e-5)).all()), "the increase was not restricted")

    def _auto_guarantees(self, old: dict[str, Tensor], new: dict[str, Tensor], g: Tensor, fine: Tensor) -> None:
        for key in ("gamma", "agreement_square", "clock", "displacement_scale", "common_gamma", "common_square"):
            require(bool(torch.isfinite(new[key])), f"{key} is not finite")
        alpha = new["accumulator"].double()[fine]
        require(bool(torch.isfinite(alpha).all()), "the accumulator is not finite")
        require(bool((alpha >= old["accumulator"].double()[fine]).all()), "the accumulator fell")
        idle = (g == 0) & fine
        if self.options.get("decoupled_weight_decay", True) or not self._decays():
            for key in ("accumulator", "displacement"):
                require(torch.equal(new[key][idle], old[key][idle]), f"{key} of an idle element changed")
            require(bool((new["offset"].abs() <= old["offset"].abs())[idle].all()), "an idle element left z")

    def _votes(self, old: dict[str, Tensor], new: dict[str, Tensor], before: list[dict[str, Tensor]]) -> None:
        """Two limited votes, of which the mean counts, the pull to the mean, and the limit make γ."""
        cap = self.options.get("gamma_max", math.inf) / (self.options.get("lr", 1.0) or 1.0)
        gamma, was, k = float(new["gamma"]), float(old["gamma"]), float(new["clock"])
        require(0.0 < gamma <= cap, "γ is not positive, or above its cap")
        require(k - float(old["clock"]) in (0.0, 1.0), "the clock does not count")
        sizes = [float(b["x"].numel()) for b in before]
        mean = sum(n * math.log(float(b["gamma"])) for n, b in zip(sizes, before, strict=True)) / sum(sizes)
        factor = gamma / (was * math.exp((mean - math.log(was)) * 0.5 / (k + 1.0)))
        fits = abs(factor - 1.0) <= max(0.1, max(k, 1.0) ** -0.5) + 1e-9 or gamma == cap or k == float(old["clock"])
        starts, drawn = float(old["limit"]) == 0.0, float(new["limit"]) <= gamma <= was
        require(fits or starts or drawn, f"γ changed {factor}-fold")

    def _agreement(self, before: list[dict[str, Tensor]], grads: list[Tensor]) -> None:
        pairs = self._pairs(self.optimizers[1], self.others)
        wrong = [name for name, a, b, ruined in pairs if not _close(a, b, ruined)]
        if not wrong or "step" not in before[0]:
            return
        # The backends may differ as much as the first one does when the last digit of its gradients changes.
        self.ill += 1
        slack = [torch.zeros(a.shape, dtype=torch.float64) for _, a, _, _ in pairs]
        sizes = [g.to_dense() if g.layout != torch.strided else g for g in grads]
        i = -1
        for place, (name, a, _, _) in enumerate(pairs):
            i += name == "x"  # x is the first entry of each parameter
            # Sums that cancel are rounded as their terms are: β·m + (1 − β)·g, x minus a step, average plus iterate.
            unit = 1e-15 if self.params[i].dtype == torch.float64 else 5e-7
            if self.auto:
                self._auto_slack(before[i], self.params[i], name, unit, slack[place])
            elif name == "momentum":
                slack[place] += unit * (1.0 - self.options.get("momentum", 0.0)) * sizes[i].double().abs()
                alpha = [b["accumulator"].double() for b in (before[i], self.optimizers[0].state[self.params[i]])]
                if alpha[0].shape == a.shape:  # a projection cancels nearly all of m·A'/A
                    slack[place] += (
                        unit * before[i][name].double().abs() * (alpha[1] / alpha[0].clamp(min=1e-300)).sqrt()
                    )
            elif name == "x":
                slack[place] += unit * before[i]["x"].double().abs()
        if self.options.get("projection") is not None:
            # m' = g + (z − p)·A' cancels at the edge of the feasible set, whatever the gradient's last digit is.
            largest = max((float(g.nan_to_num(0, 0, 0).abs().max()) for g in sizes if g.numel()), default=0.0)
            slack = [s + (pair[0] == "momentum") * 2e-5 * largest for s, pair in zip(slack, pairs, strict=True)]
        for attempt in range(12):
            trial = self._again(before, grads, attempt)
            for s, (_, a, b, _) in zip(slack, self._pairs(*trial), strict=True):
                moved = torch.nan_to_num((a.double() - b.double()).abs(), math.inf, math.inf)
                torch.maximum(s, 20.0 * moved, out=s)
            wrong = [name for s, (name, a, b, bad) in zip(slack, pairs, strict=True) if not _close(a, b, bad, s)]
            if not wrong:
                return
        raise ViolationError(f"{self.backend} differs from torch operations in {wrong[0]}")

    def _auto_slack(self, old: dict[str, Tensor], p: Tensor, name: str, unit: float, slack: Tensor) -> None:
        """A step of y is δ − e + e', which cancels; the displacement adds up such steps, and the agreement products."""
        new, scale = self.optimizers[0].state[p], math.sqrt(float(old["gamma"])) * float(old["displacement_scale"])
        if name in ("x", "offset", "displacement"):
            for rounded in (p, new["offset"]):  # The kernel rounds an idle row when it catches up, too.
                unit = max(unit, self.sparse * torch.finfo(rounded.dtype).eps)
            move = (p.detach().double() - old["x"].double()).abs()
            move += old["offset"].double().abs() + new["offset"].double().abs() + torch.finfo(torch.float32).tiny
            slack += unit * (move / (scale if name == "displacement" else 1.0) + old[name].double().abs())
        elif name in ("agreement_square", "common_square"):
            g = p.grad.to_dense() if p.grad.layout != torch.strided else p.grad
            products = (g.double() * old["displacement"].double()).nan_to_num(0.0, 0.0, 0.0).abs()
            slack += 1e-13 * (scale * float(products.sum())) ** 2

    def _pairs(self, other: Any, others: list[Any]) -> list[tuple[str, Tensor, Tensor, Tensor]]:
        """Name, both values, and which are ruined. Ruined ones may be NaN in one backend and infinite in the other."""
        ours = self.optimizers[0]
        result: list[tuple[str, Tensor, Tensor, Tensor]] = []
        for i, (p, q, ruined) in enumerate(zip(self.params, others, self.ruined, strict=True)):
            theirs = other.state[q]
            found = [("x", p.detach(), q.detach())]
            found += [(k, v, theirs[k]) for k, v in ours.state[p].items() if k in theirs]
            if not self.auto:  # the shared numbers of AutoGradaGrad leave out ruined elements
                ruined = ruined | ~self._blocks(i, ~ruined)
            result += [(k, a, b, _reduced(ruined, a.shape)) for k, a, b in found]
        return result

    def _again(self, before: list[dict[str, Tensor]], grads: list[Tensor], attempt: int) -> tuple[Any, list[Any]]:
        """Repeats the step of the first backend with gradients and state that differ in their last digit."""
        generator = torch.Generator().manual_seed(attempt)
        make: Any = type(self.optimizers[0])
        params = [torch.nn.Parameter(old["x"].clone()) for old in before]
        optimizer = make(params, **self.options, fused=False, foreach=False)
        groups = self.optimizers[0].param_groups
        if len(groups) > 1:
            optimizer = make([{"params": params[:1]}, {"params": params[1:]}], **self.options, fused=False)
        for p, g, old in zip(params, grads, before, strict=True):
            unit = torch.finfo(torch.float32 if p.dtype != torch.float64 else torch.float64).eps
            values = g.clone() if g.layout == torch.strided else g.coalesce().clone()
            inside = values if g.layout == torch.strided else values._values()
            noise = torch.randint(-2, 3, inside.shape, generator=generator) * max(unit, torch.finfo(p.dtype).eps)
            inside.copy_((inside.double() * (1.0 + noise)).to(p.dtype))
            p.grad = values
            optimizer.state[p] = {k: v.clone() for k, v in old.items() if k != "x"}
            fields = [v for v in optimizer.state[p].values() if v.shape == p.shape and v.is_floating_point()]
            for a in (p.data, *fields):
                noise = torch.randint(-1, 2, a.shape, generator=generator) * torch.finfo(a.dtype).eps
                a.copy_((a.double() * (1.0 + noise)).to(a.dtype))
        begin(optimizer, lambda _: False)
        optimizer.step()
        return optimizer, params


def _reduced(ruined: Tensor, shape: torch.Size) -> Tensor:
    """Reduces a mask of elements to rows, or to the one number of a parameter."""
    if ruined.shape == shape:
        return ruined
    return ruined.flatten(1).any(1).reshape(shape) if len(shape) else ruined.any()


def require(holds: bool, words: str) -> None:
    """Raises unless it holds."""
    if not holds:
        raise ViolationError(words)


def _close(a: Tensor, b: Tensor, ruined: Tensor, slack: Tensor | float = 0.0) -> bool:
    """Whether a and b agree up to a few units in the last place, or up to the slack. NaN must meet NaN."""
    if torch.equal(a, b):
        return True
    unit = {torch.bfloat16: 2.0**-6, torch.float16: 2.0**-9, torch.float64: 1e-9}.get(a.dtype, 1e-5)
    x, y = a.double(), b.double()
    least = 2.0**-24 if a.dtype == torch.float16 else torch.finfo(torch.float32).tiny
    near = (x - y).abs() <= unit * torch.maximum(x.abs(), y.abs()) + slack + least
    # Near the largest number, rounding decides whether it becomes infinity. Such an element is ruined in both.
    near |= (x == y) | (x.isnan() & y.isnan()) | ~torch.isfinite(torch.as_tensor(slack))
    return bool((near | ruined).all())


def run(seed: int, elements: int) -> tuple[str, Counter[str]]:
    """Runs one case; returns its family and its counts."""
    try:
        case = Case(seed, elements)
    except (ValueError, TypeError):
        return "settings refused with a reason", Counter(cases=1)
    counts = Counter(cases=1)
    size = sum(p.numel() for p in case.params)
    for _ in range(STEPS):
        try:
            case.step()
        except ViolationError as violation:
            setting = f"{case.family} {case.dtype} {case.backend} {case.options} sparse={case.sparse}"
            print(f"--only {seed} --elements {elements}: {setting}: {violation}")
            counts["violations"] += 1
            break
        except RuntimeError as error:
            if not any(word in str(error) for word in ("with sparse gradients", "sparse in their first dimension")):
                raise
            return "settings refused with a reason", Counter(cases=1)
        counts["element-steps"] += size
    counts["ill-conditioned steps"] = case.ill
    counts["sparse"] += case.sparse
    counts["with NaN or inf"] += case.gradients.ruining
    return case.family, counts
