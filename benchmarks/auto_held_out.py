"""AutoGradaGrad, untuned, against tuned baselines and parameter-free peers on held-out problems.

    python -m benchmarks.auto_held_out RESULTS.json [problem ...]

Trains what is missing in RESULTS.json and prints the tables. All of it takes one core about an hour. An interrupted
command leaves what it finished in RESULTS.unfinished.json, and the same command resumes from it.
Baselines are tuned on a grid of two rates to a decade by their mean final training loss over the first seeds. The last
iterate and the average are tuned separately. The best rates are then trained from all seeds.
"""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.stacked import Finals, Stack, ours, separate, train
from benchmarks.tuned import BASELINES, lanes, tune
from gradagrad_lab.problems.fresh import SECOND_HELD_OUT
from gradagrad_lab.problems.training import TrainingProblem

VARIANTS: dict[str, dict[str, Any]] = {
    "ours": {},
    "ours, no guard": {"guard": False},
    "ours, β = 0.85": {"momentum": 0.85},
}
SWEEP = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
_CHAOTIC = "movement_libras-lstm"
# Seeds for tuning, for the sweep of γ₀ and for the comparison. Chaotic runs get more seeds and long runs fewer.
_COUNTS = {"satimage": (3, 5, 5), "twonorm-svm": (3, 5, 5), _CHAOTIC: (2, 3, 20), "words": (2, 2, 2)}
Rows = dict[str, dict[str, Any]]
_RATES = "rates"  # the key under which an unfinished problem keeps the tuned rates


def _mechanic(parameters: Any) -> Any:
    from mechanic_pytorch import mechanize

    return mechanize(torch.optim.Adam, store_delta=True)(parameters, lr=1.0)


def _peers() -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    from dadaptation import DAdaptAdam
    from dog import DoG
    from parameterfree import COCOB
    from prodigyopt import Prodigy
    from schedulefree import AdamWScheduleFree

    return {
        "Prodigy": (Prodigy, {"lr": 1.0}),
        "D-Adaptation Adam": (DAdaptAdam, {"lr": 1.0}),
        "DoG": (DoG, {}),
        "COCOB": (COCOB, {}),
        "Mechanic (Adam)": (_mechanic, {}),
        "Schedule-Free AdamW": (AdamWScheduleFree, {}),
    }


def _record(finals: Finals) -> dict[str, Any]:
    found = {"last": finals.losses(False).tolist(), "averaged": finals.losses(True).tolist()}
    found = {key: [float(f"{loss:.5g}") for loss in losses] for key, losses in found.items()}
    diverged = {"diverged": [finals.diverged(False), finals.diverged(True)]}
    gamma = {} if finals.gamma is None else {"gamma": [float(f"{g:.3g}") for g in finals.gamma.tolist()]}
    return found | diverged | gamma


def _run(problem: TrainingProblem, rows: Rows, keep: Callable[[], None]) -> None:
    """Fills in what ``rows`` lacks. Calls ``keep`` after every part, because some take minutes."""
    few, several, many = _COUNTS.get(problem.name, (2, 3, 5))
    if _RATES not in rows:
        rows[_RATES] = tune(Stack(problem, range(few)))
        keep()
    blocks = {f"{name}, tuned for the {key}": lanes(name, [rate])
              for name, rates in rows[_RATES].items()
              for key, rate in zip(("last", "averaged"), rates, strict=True)}  # fmt: skip
    blocks |= {name: separate(optimizer, options) for name, (optimizer, options) in _peers().items()}
    blocks |= {name: ours([options]) for name, options in VARIANTS.items()}
    stack = Stack(problem, range(many))
    for name, block in blocks.items():
        if name not in rows:
            rows[name] = _record(train(stack, [block])[0])
            keep()
    for name, (last, averaged) in rows.pop(_RATES).items():
        rows[f"{name}, tuned for the last"]["lr"], rows[f"{name}, tuned for the averaged"]["lr"] = last, averaged
    starts = [{"gamma0": start} for start in SWEEP]
    for start, finals in zip(SWEEP, train(Stack(problem, range(several)), [ours(starts)]), strict=True):
        rows[f"ours, γ₀ = {start:g}"] = _record(finals)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _geometric(ratios: Sequence[float]) -> float:
    return math.exp(_mean([math.log(ratio) for ratio in ratios]))


def best_last(rows: Rows) -> float:
    """The loss of the best tuned baseline without averaging. All ratios are relative to it."""
    return min(_mean(rows[f"{name}, tuned for the last"]["last"]) for name in BASELINES)


def lines(results: dict[str, Rows]) -> dict[str, list[float]]:
    """Every method's ratio on every problem."""
    found: dict[str, list[float]] = {"best tuned": [], "best tuned, averaged": []}
    for rows in results.values():
        base = best_last(rows)
        found["best tuned"].append(1.0)
        averages = [_mean(rows[f"{name}, tuned for the averaged"]["averaged"]) for name in BASELINES]
        found["best tuned, averaged"].append(min(averages) / base)
        for name in BASELINES:
            for key in ("last", "averaged"):
                loss = _mean(rows[f"{name}, tuned for the {key}"][key])
                found.setdefault(f"{name} tuned, {key}", []).append(loss / base)
        for name, row in rows.items():
            if "tuned" in name:
                continue
            for key in ("averaged", "last"):
                found.setdefault(f"{name}, {key}", []).append(_mean(row[key]) / base)
    return found


def report(results: dict[str, Rows]) -> None:
    """Prints ratios of training loss to the best tuned baseline at its last iterate."""
    print(f"| method | mean | worst | diverged | {' | '.join(results)} |")
    print("|---" * (len(results) + 4) + "|")
    for name, ratios in lines(results).items():
        cells = [f"{_geometric(ratios):.2f}", f"{max(ratios):.2f}", str(_diverged(results, name))]
        print(f"| {name} | " + " | ".join([*cells, *(f"{ratio:.2f}" for ratio in ratios)]) + " |")
    others = {problem: rows for problem, rows in results.items() if problem != _CHAOTIC}
    print(f"\nWithout {_CHAOTIC}, whose runs differ most (mean, worst):")
    for name, ratios in lines(others).items():
        print(f"  {name}: {_geometric(ratios):.2f}, {max(ratios):.2f}")
    print("\nFlat in γ₀ (largest over smallest mean loss, γ₀ = 1e-6 … 1e-2):")
    for key in ("averaged", "last"):
        spans = {}
        for problem, rows in results.items():
            losses = [_mean(rows[f"ours, γ₀ = {start:g}"][key]) for start in SWEEP]
            spans[problem] = max(losses) / min(losses)
        flat = sum(span <= 1.15 for span in spans.values())
        print(f"  {key}: within 15 % on {flat} of {len(spans)};", ", ".join(f"{n} {s:.2f}" for n, s in spans.items()))


def _diverged(results: dict[str, Rows], line: str) -> int:
    averaged, count = line.endswith("averaged"), 0
    for rows in results.values():
        for name, row in rows.items():
            key = name.replace(", tuned for the ", " tuned, ")
            if key == line or (", tuned" not in name and f"{name}, {'averaged' if averaged else 'last'}" == line):
                count += row["diverged"][int(averaged)]
    return count


def _write(path: Path, found: dict[str, Rows]) -> None:
    path.write_text(json.dumps(found, indent=0, ensure_ascii=False))


def main() -> None:
    """Runs the command line."""
    if len(sys.argv) < 2:
        sys.exit("Name the file for the results: python -m benchmarks.auto_held_out RESULTS.json [problem ...]")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    path, wanted = Path(sys.argv[1]), sys.argv[2:]
    results: dict[str, Rows] = json.loads(path.read_text()) if path.exists() else {}
    unfinished = path.with_suffix(".unfinished.json")
    begun: dict[str, Rows] = json.loads(unfinished.read_text()) if unfinished.exists() else {}
    for problem in SECOND_HELD_OUT:
        if problem.name not in results and (not wanted or problem.name in wanted):
            rows = begun.setdefault(problem.name, {})
            _run(problem, rows, lambda: _write(unfinished, begun))
            results[problem.name] = begun.pop(problem.name)
            _write(path, results)
            print(f"{problem.name}: {time.process_time():.0f} s of one core so far", file=sys.stderr, flush=True)
    if not begun:
        unfinished.unlink(missing_ok=True)
    report(results)


if __name__ == "__main__":
    main()
