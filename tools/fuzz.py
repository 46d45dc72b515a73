"""Draws random cases on hostile numbers, in five areas, and checks that everything behaves as documented.

    python tools/fuzz.py                        a million element-steps, and 100 cases of each other area
    python tools/fuzz.py --steps 1e9            a thousand times as many, six minutes
    python tools/fuzz.py --area averaged        one area: torch, state-dicts, averaged, training or estimators
    python tools/fuzz.py --only SEED --area A   one case again, the one that a failure names (with its --elements)

`fuzz_steps` and `fuzz_areas` say what must hold.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import warnings
from collections import Counter, defaultdict

import torch
from fuzz_areas import AREAS
from fuzz_steps import ViolationError, run

from gradagrad.kernel.load import kernel_status

SMALL = 800


def main() -> int:
    """Runs cases until there are enough, and prints a table for each area."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=float, default=1e6, help="total number of element-steps")
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    parser.add_argument("--area", choices=["torch", *AREAS], help="one area only")
    parser.add_argument("--only", type=int, help="one case, by its seed")
    parser.add_argument("--elements", type=int, help="approximate number of elements of a case")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if options.only is not None:
        area = AREAS.get(options.area)
        print(area(random.Random(options.only)) if area else run(options.only, options.elements or SMALL))
        return 0
    violations = torch_area(options) if options.area in (None, "torch") else 0
    count = max(int(options.steps / 1e4), 100)
    for name in [options.area] if options.area in AREAS else () if options.area else AREAS:
        begun, outcomes = time.monotonic(), Counter[str]()
        for seed in range(options.seed, options.seed + count):
            try:
                outcomes[AREAS[name](random.Random(seed))] += 1
            except ViolationError as violation:
                print(f"--area {name} --only {seed}: {violation}")
                outcomes["violations"] += 1
        print(f"{name}: {count} cases from seed {options.seed}, {dict(outcomes)}, {time.monotonic() - begun:.0f} s")
        violations += outcomes["violations"]
    return int(violations > 0)


def torch_area(options: argparse.Namespace) -> int:
    """Prints a table by optimizer and granularity; returns the number of violations."""
    table: dict[str, Counter[str]] = defaultdict(Counter)
    begun, seed = time.monotonic(), options.seed
    while sum(counts["element-steps"] for counts in table.values()) < options.steps:
        # Most cases are small, so that there are many. Most element-steps come from large ones, which saves hours.
        long = random.Random(f"size {seed}").choices((SMALL, 40_000, 400_000), (12, 4, 2))[0]
        family, counts = run(seed, options.elements or (SMALL if options.steps < 1e8 else long))
        table[family] += counts
        seed += 1
    columns = ("cases", "sparse", "with NaN or inf", "element-steps", "ill-conditioned steps", "violations")
    print(f"| {'':25} | {' | '.join(columns)} |\n|{'---|' * (1 + len(columns))}")
    total = sum(table.values(), Counter())
    for family, counts in [*sorted(table.items()), ("all", total)]:
        print(f"| {family:25} | {' | '.join(f'{counts[c]:,}'.rjust(len(c)) for c in columns)} |")
    print(f"seeds {options.seed} to {seed - 1}, {time.monotonic() - begun:.0f} s, kernel {kernel_status().loaded}")
    return total["violations"]


if __name__ == "__main__":
    sys.exit(main())
