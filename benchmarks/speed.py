"""How long a step takes beside torch's optimizers and the parameter-free ones: ``python -m benchmarks.speed [--full]``.

Absolute times mean little on a shared machine. Contenders are therefore timed in turns, in an order drawn anew for
every round, a few at a time with the reference always among them, and reported as ratios to that reference.
"""

import argparse
import json
import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks import contenders as who
from benchmarks import workloads as what
from gradagrad.kernel import kernel_status

Row = dict[str, Any]


def time_rounds(
    steps: dict[str, Callable[[], object]], work: what.Workload, rounds: int, repeat: int
) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in steps}
    names = list(steps)
    for turn in range(rounds):
        random.shuffle(names)
        for name in names:
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
            steps[contender.name]()  # threads and buffers exist from here on
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
        for parameter in work.params:  # what slow contenders may have attached
            parameter.grad = None


def main_table(full: bool, threads: int) -> list[Row]:
    torch.set_num_threads(threads)
    size, scale, rounds = (30_000_000, 1, 15) if full else (3_000_000, 2, 9)
    everybody = [*who.ours(), *who.probes(), *who.torch_ones(), *who.peers()]
    rows: list[Row] = []
    for work in (what.one_tensor(size), what.resnet50_like(scale), what.tiny_tensors()):
        tiny = work.elements < 100_000
        chosen = [c for c in everybody if not (tiny and c.family == "probe")]
        repeat = 20 if tiny else 1
        rows += show(compare(work, who.reference(), chosen, rounds=rounds, repeat=repeat), work)
    table = what.embedding(1_000_000 if full else 100_000, 16, 4_096)
    rows += show(compare(table, who.sparse_reference(), who.sparse_ones(), rounds=2 * rounds, repeat=5), table)
    return rows


def show(rows: Iterator[Row], work: what.Workload) -> list[Row]:
    print(f"\n{work.name}: {len(work.params)} tensors, {work.elements:,} elements, {torch.get_num_threads()} threads")
    print(f"  {'':34} {'ratio':>7} {'of best':>8} {'median ms':>10} {'state B/param':>14}")
    kept = []
    for row in rows:
        state = "" if row["state_bytes"] is None else f"{row['state_bytes']:.1f}"
        numbers = f"{row['ratio']:7.2f} {row['ratio_of_best']:8.2f} {1e3 * row['median_seconds']:10.3f} {state:>14}"
        print(f"  {row['contender']:34} {numbers}", flush=True)
        kept.append(row)
    return kept


def scaling(full: bool, threads: int) -> list[Row]:
    """How time grows with the size of one tensor, with touched rows, and with the size of the table."""
    torch.set_num_threads(threads)
    rows: list[Row] = []
    chosen = [c for c in who.ours() if c.name in ("element", "element, bf16 state", "group")]
    for exponent in range(4, 9 if full else 8):
        work = what.one_tensor(10**exponent)
        work.name = "size"
        rounds = max(5, min(50, 10 ** (7 - exponent) * 5))
        rows += list(compare(work, who.reference(), chosen, rounds=rounds, at_once=3 if exponent < 8 else 1))
    lazy = [c for c in who.sparse_ones() if c.name == "element, lazy"]
    tables = [("touched rows", 1_000_000 if full else 200_000, 2**k) for k in range(6, 19 if full else 15, 2)]
    tables += [("table size", 10**k, 4_096) for k in range(4, 8 if full else 7)]
    for name, table_rows, touched in tables:
        work = what.embedding(table_rows, 16, touched)
        work.name = name
        found = list(compare(work, who.sparse_reference(), lazy, rounds=15))
        rows += [{**row, "rows": table_rows, "touched": touched} for row in found]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="the sizes of the issue (30M elements, about 30 minutes)")
    parser.add_argument("--threads", type=int, nargs="*", default=None, help="thread counts; default 1 and all cores")
    parser.add_argument(
        "--to", type=Path, default=Path("benchmarks/results"), help="folder for speed.json and speed.png"
    )
    options = parser.parse_args()
    random.seed(0)
    torch.manual_seed(0)
    cores = os.cpu_count() or 1
    counts = options.threads or sorted({1, cores})
    rows = [row for threads in counts for row in main_table(options.full, threads)]
    grown = scaling(options.full, max(counts))
    report = {
        "torch": torch.__version__,
        "kernel": kernel_status().loaded,
        "machine": platform.processor() or platform.machine(),
        "cores": cores,
        "load_at_end": os.getloadavg()[0],
        "full": options.full,
        "results": rows,
        "scaling": grown,
    }
    options.to.mkdir(parents=True, exist_ok=True)
    path = options.to / "speed.json"
    path.write_text(json.dumps(report, indent=1))
    from benchmarks.plot import draw

    draw(report, options.to / "speed.png")
    print(f"\nwritten: {path} and {options.to / 'speed.png'}")


if __name__ == "__main__":
    main()
