"""The other areas of `tools/fuzz.py`: edited state dicts, blocks of `averaged()`, odd training loops, and estimators.

state dicts  Entries are replaced, removed, added or exchanged: a number, a tensor, a parameter's whole state, a group.
             Loading raises ValueError and changes nothing, or the next step is finite.
averaged     Blocks are nested, left by exceptions and interrupted by signals; parameters are resized inside, and what
             is refused inside is tried. Inside are averages, outside the iterates, and the next step is that of an
             optimizer that was left in peace.
training     Odd loops (steps inside backward, modes, checkpoints, refused attempts) train as usual ones do.
estimators   Random data, weights and arguments, some of them hostile. A fit warns of no overflow, is finite, is no
             worse than a constant, does not depend on the unit of y, and is nearly reached by `partial_fit`. Or it
             raises ValueError.
"""

from __future__ import annotations

import contextlib
import copy
import math
import random
import signal
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from common import leaves
from fuzz_steps import ViolationError, require
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, r2_score
from torch import Tensor

from gradagrad import AutoGradaGrad, GradaGrad, step_in_backward
from gradagrad.sklearn import GradaGradClassifier, GradaGradRegressor

MAKES: dict[str, Callable[[Any], Any]] = {
    "element": lambda p: GradaGrad(p, lr=0.1),
    "row": lambda p: GradaGrad(p, lr=0.1, granularity="row", momentum=0.5, lazy=True),
    "group": lambda p: GradaGrad(p, lr=0.1, granularity="group"),
    "bf16": lambda p: GradaGrad(p, lr=0.1, state_dtype=torch.bfloat16, grad_bound=2.0),
    "auto": lambda p: AutoGradaGrad(p),
    "groups": lambda p: AutoGradaGrad([{"params": p[:1]}, {"params": p[1:], "lr": 0.1}], state_dtype=torch.bfloat16),
}
PLAIN = (
    *(None, "abc", "", b"x", {}, [], [1, 2], (), 0, 1, -1, 1.5, math.nan, math.inf, -math.inf, 10**400, 2**63, 1e300),
    *(True, object, torch.float32, 1j, "element", "group", "bfloat16", {"step": 1}, [{}], {0: None}),
)
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.bool, torch.complex64)
NUMBERS = (0.0, 1.0, -1.0, 0.5, math.nan, math.inf, -math.inf, 1e-40, 1e200)


def trained(make: Callable[[Any], Any], dice: random.Random, steps: int = 3) -> tuple[list[torch.nn.Parameter], Any]:
    """An optimizer after some steps, sometimes with a sparse gradient."""
    params = [torch.nn.Parameter(torch.linspace(0.5, 1.5, 6).reshape(3, 2) + i) for i in range(2)]
    optimizer, sparse = make(params), dice.random() < 0.3
    for _ in range(steps):
        take_step(params, optimizer, sparse=sparse)
    return params, optimizer


def take_step(params: list[torch.nn.Parameter], optimizer: Any, *, sparse: bool = False) -> None:
    """One step; with ``sparse`` a row of the second table stays idle."""
    for p in params:
        p.grad = p.detach() - 3.0
    if sparse:
        rows = torch.tensor([[0, 2]])
        params[1].grad = torch.sparse_coo_tensor(rows, torch.ones(2, 2), (3, 2), check_invariants=False)
    optimizer.step()


def wrong_value(dice: random.Random, was: Any) -> Any:
    """Something to put in the place of a value; it may fit."""
    if dice.random() < 0.4:
        return dice.choice(PLAIN)
    shape = tuple(was.shape) if isinstance(was, Tensor) else ()
    dtype, size = dice.choice(DTYPES), dice.choice([(), (1,), shape, shape, (5,), (0,), (*shape, 1)])
    number = dice.choice(NUMBERS) if dtype.is_floating_point else dice.choice((0, 1, 100))
    tensor = torch.full(size, 0, dtype=dtype) + torch.tensor(number, dtype=torch.float64).to(dtype)
    forms: list[Callable[[], Any]] = [lambda: tensor] * 5 + [
        lambda: torch.empty(shape, device="meta"), lambda: torch.ones(shape).to_sparse(), lambda: torch.full(shape, -1),
        lambda: torch.full(shape, 2**62), lambda: torch.nn.Parameter(torch.ones(shape)) * 2.0,
        lambda: torch.ones(()).expand(shape), lambda: torch.ones(shape).to(torch.float8_e4m3fn),
    ]  # fmt: skip
    return dice.choice(forms)()


def state_dicts(dice: random.Random) -> str:
    """Edits a saved state dict once or twice and loads it."""
    params, optimizer = trained(MAKES[dice.choice(list(MAKES))], dice)
    saved = copy.deepcopy(optimizer.state_dict())
    log: list[str] = []
    for _ in range(dice.choice((1, 1, 2))):
        places = [saved, saved.get("state"), saved.get("param_groups")]
        places += [*places[1].values()] if isinstance(places[1], dict) else []
        places += places[2] if isinstance(places[2], list) else []
        place = dice.choice([p for p in places if isinstance(p, dict | list) and len(p)])
        key = dice.choice(list(place) if isinstance(place, dict) else range(len(place)))
        kind = dice.choice(("replace", "replace", "replace", "remove", "add", "exchange"))
        if kind == "remove":
            del place[key]
        elif kind == "exchange":
            other = dice.choice(list(place) if isinstance(place, dict) else range(len(place)))
            place[key], place[other] = place[other], place[key]
        elif key != "projection":  # which is never taken from a state dict
            value = wrong_value(dice, place[key])
            if kind == "replace":
                place[key] = value
            else:
                place.append(value) if isinstance(place, list) else place.update({dice.choice(("row_steps", 7)): value})
            log.append(" ".join(repr(value).split())[:60])
        log.append(f"{kind} {key}")
    before, stays = copy.deepcopy(optimizer.state_dict()), [p.detach().clone() for p in params]
    outcome = "accepted"
    try:
        optimizer.load_state_dict(saved)
    except ValueError as error:
        outcome = "refused"
        require(leaves(before) == leaves(optimizer.state_dict()), f"{log}: refused, but changed something: {error}")
        require(len(str(error)) > 20, f"{log}: refused without words: {error}")
    except Exception as error:
        raise ViolationError(f"{log}: {type(error).__name__}: {error}") from error
    require(all(map(torch.equal, params, stays)), f"{log}: loading moved parameters")
    try:
        take_step(params, optimizer)
        optimizer.state_dict()
    except Exception as error:
        raise ViolationError(f"{log}: {outcome}, but cannot step: {type(error).__name__}: {error}") from error
    require(all(bool(torch.isfinite(p).all()) for p in params), f"{log}: {outcome}, and the step is not finite")
    return outcome


class Interruption(BaseException):
    """The exception that the handler of a signal raises."""


def _interrupt(*_: Any) -> None:
    raise Interruption


def averaged(dice: random.Random) -> str:
    """Enters and leaves blocks in odd ways, between steps."""
    params, optimizer = trained(MAKES[dice.choice(("auto", "groups"))], dice, dice.choice((0, 1, 5)))
    optimizer.state_dict()  # Idle rows catch up.
    peaceful, outcome = copy.deepcopy((params, optimizer)), "left in peace"
    for _ in range(6):
        iterates = [p.detach().clone() for p in params]
        try:
            try:
                with contextlib.suppress(ZeroDivisionError):
                    _disturb(dice, params, optimizer)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except Interruption:
            outcome = "interrupted"
        torch.set_grad_enabled(True)  # torch.no_grad leaves it off if a signal's handler raises in it.
        if outcome == "interrupted":  # A block that a signal ends before it begins to restore stays in eval mode.
            optimizer.train()
        require(all(map(torch.equal, params, iterates)), "the iterates are not back")
        take_step(params, optimizer)
        take_step(*peaceful)
        require(all(map(torch.equal, params, peaceful[0])), "the next step differs from that of an optimizer in peace")
        require(
            leaves(optimizer.state_dict()) == leaves(peaceful[1].state_dict()),
            "the state differs from that of one in peace",
        )
    return outcome


def _disturb(dice: random.Random, params: list[torch.nn.Parameter], optimizer: Any) -> None:
    """One block, or nested ones. A signal may come at any moment."""
    expected = {
        p: p.detach() - s["offset"].float() * ((1.0 - g["momentum"]) / g["momentum"])
        for g in optimizer.param_groups for p in g["params"] if (s := optimizer.state[p]) and s["step"]
    }  # fmt: skip
    iterate, resizes = params[0].detach().clone(), bool(expected) and dice.random() < 0.1
    if not resizes and dice.random() < 0.6:
        signal.signal(signal.SIGALRM, _interrupt)
        signal.setitimer(signal.ITIMER_REAL, 10 ** dice.uniform(-5.5, -3))

    def block(depth: int) -> None:
        with optimizer.averaged():
            for p, average in expected.items():
                torch.testing.assert_close(p.detach(), average, rtol=1e-5, atol=1e-6)
            if depth:
                return block(depth - 1)
            what = "resize" if resizes else dice.choice(("exception", "step", "eval", "write"))
            if what == "exception":
                raise ZeroDivisionError
            if what == "resize":
                params[0].data = torch.zeros(7)
            elif what == "write" and expected:
                with torch.no_grad():
                    params[0].zero_()
            elif what == "eval":
                optimizer.eval()
            elif what == "step":
                with contextlib.suppress(RuntimeError):
                    optimizer.step()
                    raise ViolationError("a step was not refused inside a block")
        return None

    try:
        block(dice.choice((0, 0, 1, 2)))
        require(not resizes, "a resized parameter was not reported")
    except RuntimeError:
        params[0].data = iterate


def training(dice: random.Random) -> str:
    """Trains a net twice: as usual, and with steps inside backward, modes, checkpoints and refused attempts between."""
    make, log = MAKES[name := dice.choice(("element", "row", "bf16", "auto"))], [name]
    torch.manual_seed(dice.randrange(2**32))
    usual = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)).double()
    odd = copy.deepcopy(usual)
    reference, optimizer = make([*usual.parameters()]), make([*odd.parameters()])
    for _ in range(12):
        lr, hidden = dice.choice((None, None, 1e-3, 0.1, 1.0)), dice.choice(("", "", "second", "save"))
        for group in [*reference.param_groups, *optimizer.param_groups] if lr else ():
            group["lr"] = lr
        log.append(f"{lr} {(what := dice.choice(('', 'inside', 'eval', 'load', 'load in eval')))} {hidden}")
        if what == "inside":
            step_in_backward(odd, optimizer)
        elif what in ("eval", "load in eval") and isinstance(optimizer, AutoGradaGrad):
            optimizer.eval()
        if "load" in what:
            saved, optimizer = copy.deepcopy(optimizer.state_dict()), make([*odd.parameters()])
            optimizer.load_state_dict(saved)
        getattr(optimizer, "train", str)()
        x = torch.randn(6, 5, dtype=torch.float64) * dice.choice((1.0, 1.0, 0.01))
        for model, own in ((usual, reference), (odd, optimizer)):
            own.zero_grad()
            (model(x) - 1.0).square().mean().backward()
            if model is odd and own._in_backward and hidden:
                with contextlib.suppress(RuntimeError):
                    odd(x).sum().backward() if hidden == "second" else own.state_dict()
                    raise ViolationError(f"{log}: not refused")
            own.step()
        for p, q in zip(usual.parameters(), odd.parameters(), strict=True):
            require(torch.allclose(p, q, rtol=1e-6, atol=1e-9), f"{log}: the runs differ by {(p - q).abs().max()}")
    return "equal"


def _numbers(dice: random.Random, draw: np.random.Generator, count: int, width: int) -> tuple[Any, Any]:
    """Samples that a linear model fits, and how: some columns are constant, equal, tiny or huge."""
    X = draw.standard_normal((count, width))
    outputs = X @ draw.standard_normal(width) + 0.1 * draw.standard_normal(count)
    for j in range(width):
        kind = dice.random()
        if kind < 0.2:
            X[:, j] *= 10.0 ** dice.uniform(-200, 200)
        elif kind < 0.3:
            X[:, j] = dice.choice((0.0, 1.0, -1e10, 1e300))
        elif kind < 0.4:
            X[:, j] += 10.0 ** dice.uniform(-3, 4)
        elif kind < 0.45:
            X[: count // 2, j] = 0.0
    return X, outputs


def estimators(dice: random.Random) -> str:
    """Fits one estimator, in one go and as a stream."""
    draw = np.random.default_rng(dice.randrange(2**32))
    classifies, count, width = dice.random() < 0.5, dice.choice((1, 2, 6, 40, 200)), dice.choice((1, 2, 7))
    X, outputs = _numbers(dice, draw, count, width)
    unit, shift = 2.0 ** dice.choice((0, 0, 5, -300, 300)), dice.choice((0.0, 1.0, 1e4))
    if classifies:
        y: Any = np.array(dice.choice((["no", "yes"], [0, 1], [5, 3])))[(outputs > 0).astype(int)]
    else:
        y = outputs * unit + shift * unit if dice.random() < 0.9 else np.full(count, dice.choice((0.0, 3.0, 1e300)))
    weights = None if dice.random() < 0.6 else draw.random(count) * 10.0 ** dice.choice((0, -300, 300)) + 1e-9
    if weights is not None and dice.random() < 0.3:
        weights[: count // 2] = dice.choice((0.0, 0.0, -1.0, math.inf))
    if dice.random() < 0.1:
        X.flat[draw.integers(X.size)] = dice.choice((math.nan, math.inf, 1.7e308))
    X = sp.csr_matrix(X) if dice.random() < 0.3 else X
    losses = ("log_loss", "hinge", "squared_hinge") if classifies else ("squared_error", "huber")
    options = {
        "loss": dice.choice(losses), "penalty": dice.choice(("l2", "l2", "l1", "elasticnet", None)),
        "alpha": dice.choice((1e-4, 1e-4, 0.0, 1.0, 1e300, "auto", math.inf, -1.0)),
        "fit_intercept": dice.random() < 0.8, "average": dice.random() < 0.8,
        "batch_size": dice.choice(("auto", 1, 7)), "max_iter": dice.choice((1, 20, 200)), "random_state": 0,
    }  # fmt: skip
    make: Any = GradaGradClassifier if classifies else GradaGradRegressor
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            model = make(**options).fit(X, y, weights)
        except ValueError as error:
            require(len(str(error)) > 20, f"refused without words: {error}")
            return "refused"
        except (ArithmeticError, RuntimeWarning, TypeError, IndexError, KeyError) as error:
            raise ViolationError(f"{type(error).__name__}: {error}, {options}") from error
        require(bool(np.isfinite(model.coef_).all() and np.isfinite(model.intercept_).all()), f"not finite: {options}")
        if options["max_iter"] == 200:
            _check_fit(dice, make, options, model, (X, y, weights))
    return "fitted"


def _check_fit(dice: random.Random, make: Any, options: dict[str, Any], model: Any, given: tuple[Any, ...]) -> None:
    X, y, weights = given
    regular = options["fit_intercept"] and options["loss"] in ("squared_error", "log_loss")
    if regular:
        unit = 1.0 if make is GradaGradClassifier else max(float(np.abs(y).max()), 1e-300)
        measure = accuracy_score if make is GradaGradClassifier else r2_score
        weights = None if weights is None else weights / weights.max()
        found = model.predict(X)
        score = measure(y if unit == 1.0 else y / unit, found if unit == 1.0 else found / unit, sample_weight=weights)
        constant = 0.0 if make is GradaGradRegressor else max(
            float(np.average(y == label, weights=weights)) for label in np.unique(y)
        )  # fmt: skip
        require(
            score > constant - 0.1 or bool((y == y[0]).all()), f"score {score}, a constant has {constant}: {options}"
        )
    scales = options["loss"] == "squared_error" and options["penalty"] in ("l2", None)  # Huber's epsilon has a unit.
    if scales:
        again = make(**options).fit(X, y * 4.0, weights).predict(X) / 4.0
        difference = float(np.abs(again - model.predict(X)).max())
        require(
            difference <= 1e-6 * float(np.abs(y).max()) + 1e-300, f"other units of y, {difference} apart: {options}"
        )
    if regular and len(y) == 200 and options["alpha"] in (1e-4, 0.0) and weights is None:
        stream = make(**options)
        first = {} if make is GradaGradRegressor else {"classes": np.unique(y)}
        rows = sp.csr_matrix(X) if sp.issparse(X) else X
        for _ in range(30):
            for at in range(0, 200, size := dice.choice((10, 50, 200))):
                stream.partial_fit(rows[at : at + size], y[at : at + size], **first)
        found, whole = stream.score(X, y), model.score(X, y)
        require(found > whole - 0.2, f"a stream scores {found}, a fit {whole}: {options}")


AREAS: dict[str, Callable[[random.Random], str]] = {
    "state-dicts": state_dicts,
    "averaged": averaged,
    "training": training,
    "estimators": estimators,
}
