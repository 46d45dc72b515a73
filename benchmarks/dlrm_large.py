"""DLRM at the paper's size (more than 300 million parameters): peak memory and time per step, optimizer by optimizer.

    python benchmarks/dlrm_large.py                    all, in shuffled rounds, each in a process of its own
    python benchmarks/dlrm_large.py --cap 1000000      smaller tables, for machines with less memory

A process of its own, because peak memory is a process's high-water mark. One thread and processor time, because both
stay meaningful on a machine that others use too; the ratio is the median of those within each round.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import resource
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path

import torch
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.optim import SGD, Adagrad, Adam, Optimizer, SparseAdam

from gradagrad import GradaGrad, kernel_status
from gradagrad_lab.data.clicks.stream import ClickStream
from gradagrad_lab.problems.clicks.dlrm import DLRM, KAGGLE, Size

NAMES = ("sgd", "adagrad", "sparse adam", "gradagrad scalar", "gradagrad row")
TITLES = {
    "sgd": "SGD (no state)",
    "adagrad": "torch Adagrad, sparse",
    "sparse adam": "torch SparseAdam + Adam",
    "gradagrad scalar": 'GradaGrad "group"',
    "gradagrad row": 'GradaGrad "row", lazy, + "element"',
}


def optimizers_of(name: str, model: DLRM) -> list[Optimizer]:
    if name == "sgd":
        return [SGD(model.parameters(), 0.1)]
    if name == "adagrad":
        return [Adagrad(model.parameters(), 0.02)]
    if name == "sparse adam":
        return [Adam(model.networks(), 1e-3), SparseAdam([model.tables.weight], 1e-3)]
    if name == "gradagrad scalar":
        return [GradaGrad(model.parameters(), 1e-2, rho=100.0, granularity="group")]
    groups = [{"params": model.networks()}, {"params": [model.tables.weight], "granularity": "row", "lazy": True}]
    return [GradaGrad(groups, 1e-2)]


def measure(name: str, cap: int, steps: int, threads: int) -> dict[str, float]:
    """Runs in a process of its own: construct, take steps, report."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(threads)
    size = Size(cap, KAGGLE.dimension, KAGGLE.bottom, KAGGLE.top)
    stream = ClickStream(0, cap)
    rows = stream.rows(128 * (steps + 1))
    started = time.perf_counter()
    model = DLRM(stream.table_sizes, size)
    made = time.perf_counter() - started
    before = peak()
    optimizers = optimizers_of(name, model)
    losses: list[float] = []
    whole: list[float] = []
    own: list[float] = []
    for step in range(steps + 1):
        cut = rows.cut(128 * step, 128 * (step + 1))
        dense, ids, clicks = torch.tensor(cut.dense), torch.tensor(cut.ids).long(), torch.tensor(cut.clicks)
        begin = time.process_time()
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss = binary_cross_entropy_with_logits(model(dense, ids), clicks)
        loss.backward()
        middle = time.process_time()
        for optimizer in optimizers:
            optimizer.step()
        end = time.process_time()
        losses.append(loss.item())
        whole.append(end - begin)
        own.append(end - middle)
    if not all(torch.isfinite(torch.tensor(losses))):
        raise SystemExit(f"{name}: the loss is not finite")
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "made": made,
        "model": before,
        "peak": peak(),
        "first": whole[0],
        # The first step makes the state and is shown by itself.
        "whole": sorted(whole[1:])[len(whole[1:]) // 2],
        "own": sorted(own[1:])[len(own[1:]) // 2],
        "loss": sum(losses[-10:]) / len(losses[-10:]),
    }


def peak() -> float:
    """High-water mark of this process's memory, in GiB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


def in_own_process(name: str, cap: int, steps: int, threads: int) -> dict[str, float]:
    """`measure` in a fresh process; its last words if it fails."""
    command = [sys.executable, __file__, "--measure", name, "--cap", str(cap), "--steps", str(steps)]
    command += ["--threads", str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{TITLES[name]}: failed (exit {done.returncode}). {done.stderr.strip().splitlines()[-1:]}")
    return json.loads(done.stdout.splitlines()[-1])


def summary(rounds: list[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Medians over the rounds (memory: the highest); ratios are taken within a round, then their median."""
    result: dict[str, dict[str, float]] = {}
    for name in rounds[0]:
        found = [results[name] for results in rounds]
        result[name] = {key: statistics.median(one[key] for one in found) for key in found[0]}
        result[name]["peak"] = max(one["peak"] for one in found)
        if "adagrad" in rounds[0]:
            ratios = [results[name]["own"] / results["adagrad"]["own"] for results in rounds]
            result[name] |= {"ratio": statistics.median(ratios), "least": min(ratios), "most": max(ratios)}
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cap", type=int, default=KAGGLE.cap, help="most table rows per field")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", choices=NAMES, action="append", help="one optimizer; may be given several times")
    parser.add_argument("--to", type=Path, default=Path("benchmarks/results"), help="folder for dlrm_large.json")
    parser.add_argument("--measure", choices=NAMES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.cap, options.steps, options.threads)))
        return
    order = list(options.only or NAMES)
    shuffled = random.Random(0)
    rounds: list[dict[str, dict[str, float]]] = []
    for number in range(options.rounds):
        shuffled.shuffle(order)
        rounds.append({name: in_own_process(name, options.cap, options.steps, options.threads) for name in order})
        print(f"round {number + 1} of {options.rounds} done", file=sys.stderr)
    results = summary(rounds)
    report = {
        "torch": torch.__version__,
        "kernel": kernel_status().loaded,
        "machine": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "load_at_end": os.getloadavg()[0],
        "threads": options.threads,
        "steps": options.steps,
        "rounds": options.rounds,
        "results": results,
    }
    show(results, options.steps, options.rounds)
    options.to.mkdir(parents=True, exist_ok=True)
    path = options.to / "dlrm_large.json"
    path.write_text(json.dumps(report, indent=1))
    print(f"written: {path}")


def show(results: dict[str, dict[str, float]], steps: int, rounds: int) -> None:
    parameters = next(iter(results.values()))["parameters"] / 1e6
    print(f"DLRM with {parameters:.0f} million parameters, batch 128, {rounds} × {steps} steps, {torch.__version__}")
    print("times are processor time")
    headings = (("", 36), ("peak GiB", 9), ("model GiB", 10), ("first ms", 10), ("step ms", 9), ("optimizer ms", 13))
    print("".join(f"{text:>{width}}" for text, width in (*headings, ("÷ Adagrad", 19), ("loss", 7))))
    for name in (name for name in NAMES if name in results):
        found = results[name]
        ratio = f"{found['ratio']:.2f} ({found['least']:.2f}–{found['most']:.2f})" if "ratio" in found else "–"
        print(
            f"{TITLES[name]:36}{found['peak']:9.2f}{found['model']:10.2f}{found['first'] * 1e3:10.0f}"
            f"{found['whole'] * 1e3:9.2f}{found['own'] * 1e3:13.2f}{ratio:>19}{found['loss']:7.3f}"
        )


if __name__ == "__main__":
    main()
