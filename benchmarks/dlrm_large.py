"""DLRM at the paper's size (more than 300 million parameters): peak memory and time per step, optimizer by optimizer.

    python benchmarks/dlrm_large.py                    all, one after the other, each in a process of its own
    python benchmarks/dlrm_large.py --cap 1000000      smaller tables, for machines with less memory

A process of its own, because peak memory is a process's high-water mark. Times of a shared machine mean little by
themselves: read the ratios, or run it alone.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings

import torch
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.optim import SGD, Adagrad, Adam, Optimizer, SparseAdam

from gradagrad import GradaGrad
from gradagrad_lab.data.clicks import ClickStream
from gradagrad_lab.problems.dlrm import DLRM, KAGGLE, Size

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


def measure(name: str, cap: int, steps: int) -> dict[str, float | list[float]]:
    """Runs in a process of its own: construct, take steps, report."""
    warnings.simplefilter("ignore")
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
        begin = time.perf_counter()
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss = binary_cross_entropy_with_logits(model(dense, ids), clicks)
        loss.backward()
        middle = time.perf_counter()
        for optimizer in optimizers:
            optimizer.step()
        end = time.perf_counter()
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cap", type=int, default=KAGGLE.cap, help="most table rows per field")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--only", choices=NAMES, action="append", help="one optimizer; may be given several times")
    parser.add_argument("--measure", choices=NAMES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.cap, options.steps)))
        return
    results: dict[str, dict[str, float]] = {}
    for name in options.only or NAMES:
        command = [
            sys.executable,
            __file__,
            "--measure",
            name,
            "--cap",
            str(options.cap),
            "--steps",
            str(options.steps),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{TITLES[name]}: failed (exit {done.returncode}). {done.stderr.strip().splitlines()[-1:]}")
            continue
        results[name] = json.loads(done.stdout.splitlines()[-1])
        print(f"{TITLES[name]} done", file=sys.stderr)
    if not results:
        raise SystemExit(1)
    parameters = next(iter(results.values()))["parameters"]
    print(f"DLRM with {parameters / 1e6:.0f} million parameters, batch 128, {options.steps} steps, {torch.__version__}")
    reference = results.get("adagrad")
    headings = (("", 36), ("peak GiB", 9), ("model GiB", 10), ("first ms", 10), ("step ms", 9), ("optimizer ms", 13))
    print("".join(f"{text:>{width}}" for text, width in (*headings, ("÷ Adagrad", 10), ("loss", 7))))
    for name, found in results.items():
        ratio = f"{found['own'] / reference['own']:.2f}" if reference else "–"
        print(
            f"{TITLES[name]:36}{found['peak']:9.2f}{found['model']:10.2f}{found['first'] * 1e3:10.0f}"
            f"{found['whole'] * 1e3:9.2f}{found['own'] * 1e3:13.2f}{ratio:>10}{found['loss']:7.3f}"
        )


if __name__ == "__main__":
    main()
