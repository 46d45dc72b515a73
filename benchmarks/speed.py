"""Times steps beside torch's optimizers and the parameter-free ones: ``python -m benchmarks.speed [--full]``.

Absolute times mean little on a shared machine. So contenders are timed in turns, in a new random order in every round,
a few at a time together with the reference, and reported as ratios to that reference.
"""

import argparse
import gc
import itertools
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks import contenders as who
from benchmarks import workloads as what
from benchmarks.plot import draw, text
from gradagrad_lab.records import RunFile

Row = dict[str, Any]


# A contender stops after this many seconds and rounds. Otherwise the slow ones would take most of the time.
PATIENCE, ENOUGH = 1.5, 5
# Steps before the timed ones. They create threads and buffers, and AutoGradaGrad measures its limits in most of them.
WARM_UP = 130


def time_rounds(
    steps: dict[str, Callable[[], object]], work: what.Workload, rounds: int, repeat: int
) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in steps}
    names = list(steps)
    for turn in range(rounds):
        random.shuffle(names)
        for name in names:
            if turn >= ENOUGH and sum(times[name]) * repeat > PATIENCE:
                continue
            step = steps[name]
            spent = 0.0
            for again in range(repeat):
                work.use(turn + again)
                begin = time.perf_counter()
                step()
                spent += time.perf_counter() - begin
            times[name].append(spent / repeat)
    return times


def compare(
    work: what.Workload,
    reference: who.Contender,
    others: list[who.Contender],
    *,
    rounds: int,
    repeat: int = 1,
    at_once: int = 4,
) -> Iterator[Row]:
    """Rows of (contender, time, ratio to the reference), ``at_once`` contenders held in memory at a time."""
    first = True
    for start in range(0, len(others), at_once):
        chosen = [reference, *others[start : start + at_once]]
        steps: dict[str, Callable[[], object]] = {}
        for contender in chosen:
            work.use(0)
            steps[contender.name] = contender.make(work)
            begin = time.perf_counter()
            for turn in range(WARM_UP):
                work.use(turn)
                steps[contender.name]()
                if time.perf_counter() - begin > PATIENCE:
                    break
        times = time_rounds(steps, work, rounds, repeat)
        base = times[reference.name]
        for contender in chosen if first else chosen[1:]:
            own = times[contender.name]
            yield {
                "workload": work.name,
                "elements": work.elements,
                "threads": torch.get_num_threads(),
                "contender": contender.name,
                "family": contender.family,
                "median_seconds": statistics.median(own),
                "best_seconds": min(own),
                "ratio": statistics.median(own) / statistics.median(base),
                "ratio_of_best": min(own) / min(base),
                "state_bytes": contender.state_bytes,
            }
        first = False
        for parameter in work.params:  # slow contenders may have attached gradients
            parameter.grad = None


def tables(full: bool) -> dict[str, Callable[[], list[Row]]]:
    """The comparisons with peers, one per workload."""
    size, scale, rounds = (30_000_000, 1, 15) if full else (3_000_000, 2, 9)

    def dense(work: what.Workload) -> list[Row]:
        repeat = 20 if work.elements < 100_000 else 1
        everybody = [*who.ours(), *who.torch_ones(), *who.peers()]
        return show(compare(work, who.reference(), everybody, rounds=rounds, repeat=repeat), work)

    def sparse(work: what.Workload) -> list[Row]:
        return show(compare(work, who.sparse_reference(), who.sparse_ones(), rounds=2 * rounds, repeat=5), work)

    return {
        "one tensor": lambda: dense(what.dense("one tensor", [(size,)])),
        "ResNet-50-like list": lambda: dense(what.resnet50_like(scale)),
        "tiny tensors": lambda: dense(what.dense("300 tiny tensors", [(16,), (8, 8)] * 150)),
        "embedding table": lambda: sparse(what.embedding(1_000_000 if full else 100_000, 16, 4_096)),
    }


def show(rows: Iterator[Row], work: what.Workload) -> list[Row]:
    print(f"\n{work.name}: {len(work.params)} tensors, {work.elements:,} elements, {torch.get_num_threads()} threads")
    print(f"  {'':34} {'ratio':>7} {'of best':>8} {'median ms':>10} {'state B/param':>14}")
    kept = []
    for row in rows:
        numbers = f"{row['ratio']:7.2f} {row['ratio_of_best']:8.2f} {1e3 * row['median_seconds']:10.3f}"
        print(f"  {row['contender']:34} {numbers} {row['state_bytes']:14.1f}", flush=True)
        kept.append(row)
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="large sizes (30M elements, up to 20 minutes)")
    parser.add_argument("--threads", type=int, nargs="*", default=None, help="thread counts; default 1 and all cores")
    parser.add_argument("--only", default="", help="tables whose names contain this, for example 'embedding'")
    parser.add_argument("--resume", action="store_true", help="skip what an interrupted run has recorded")
    parser.add_argument(
        "--to", type=Path, default=Path("benchmarks/results"), help="folder for speed.json and its picture"
    )
    options = parser.parse_args()
    random.seed(0)
    torch.manual_seed(0)
    counts = options.threads or sorted({1, os.cpu_count() or 1})
    record = RunFile(options.to / "speed.json")
    if not options.resume:
        record.made, record.runs = [], {}
    for threads, (table, job) in itertools.product(counts, tables(options.full).items()):
        name = f"{table}, {threads} threads" + ", full" * options.full
        if options.only not in name or name in record.runs:
            continue
        torch.set_num_threads(threads)
        begin, load = time.perf_counter(), os.getloadavg()[0]
        rows = job()
        gc.collect()  # some peers hold gigabytes in reference cycles
        seconds = time.perf_counter() - begin
        record.put({"seconds": seconds, "load": load, "rows": rows, "made": record.note()}, name)
        record.save()
    picture = options.to / "speed.png"
    draw(record, picture)
    seconds = sum(table["seconds"] for table in record.runs.values())
    print(text(record))
    print(f"\nwritten: {record.path} and {picture}; {seconds / 60:.1f} minutes of measuring")


if __name__ == "__main__":
    main()
