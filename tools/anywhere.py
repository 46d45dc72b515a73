"""Runs tests as other machines would: older instruction sets, one or two threads, random order, twice, under load.

    python tools/anywhere.py [FILE...]            every instruction set × threads, each twice
    python tools/anywhere.py --part SECONDS       a few files, others for each commit, for CI
    python tools/anywhere.py --order SEED ...     repeats an order that failed

Torch and the kernel read ATEN_CPU_CAPABILITY and take the loops of a processor without AVX2 or AVX-512.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CAPABILITIES = ("default", "avx2", None)  # None means the machine's own
SEED, BUDGET = "ANYWHERE_SEED", "ANYWHERE_SECONDS"
BEGUN = time.monotonic()


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Shuffles the tests, as a pytest plugin (`-p tools.anywhere`). All workers of xdist get the same order."""
    if SEED in os.environ:
        random.Random(os.environ[SEED]).shuffle(items)


def pytest_runtest_protocol(item: Any, nextitem: Any) -> None:
    """Ends a part in time by dropping the tests that follow the next one."""
    if BUDGET in os.environ and nextitem is not None and time.monotonic() - BEGUN > float(os.environ[BUDGET]):
        items = item.session.items
        del items[items.index(nextitem) + 1 :]


def command(files: list[str], capability: str | None, threads: int, order: str) -> tuple[list[str], dict[str, str]]:
    """The command line of one pytest run and its environment."""
    environment = os.environ | {SEED: order, "OMP_NUM_THREADS": str(threads)}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), environment.get("PYTHONPATH")]))
    if capability is not None:
        environment["ATEN_CPU_CAPABILITY"] = capability
    line = [sys.executable, "-m", "pytest", "-p", "tools.anywhere", "-q", "--no-header", "-p", "no:cacheprovider"]
    return [*line, *files], environment


def busy(processes: int) -> list[subprocess.Popen[bytes]]:
    """Starts processes that only take time from the tests."""
    return [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]


def whole(files: list[str], order: str, load: int, cores: int) -> int:
    """Runs every instruction set with one and two threads, twice, in two orders; returns the number of failed runs."""
    failures = 0
    burners = busy(load)
    try:
        for capability in CAPABILITIES:
            for threads in (1, 2):
                for again in (1, 2):
                    name = f"{order}.{again}"
                    line, environment = command(files, capability, threads, name)
                    line += ["-n", str(cores), "--dist", "worksteal"] if cores > 1 else []
                    begun = time.monotonic()
                    code = subprocess.run(line, cwd=ROOT, env=environment, check=False).returncode
                    failures += code != 0
                    took = f"{time.monotonic() - begun:.0f} s"
                    setting = f"capability {capability or 'own':8} threads {threads}  order {name:14} load {load}"
                    print(f"{setting}  {'passed' if code == 0 else 'FAILED'}  {took}", flush=True)
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    return failures


def part(seconds: float, order: str) -> int:
    """Runs some tests of the library on two instruction sets at once; returns the number of failed runs."""
    tests = ROOT / "tests"
    # One test of these files may take longer than the whole part.
    slow = {"lab", "distributed", "jax_half", "docs", "interpreted", "test_install.py", "test_examples.py"}
    slow |= {"test_compile.py", "test_frameworks.py"}
    files = [file.relative_to(ROOT) for file in sorted(tests.rglob("test_*.py"))]
    files = [file.as_posix() for file in files if not slow & set(file.parts)]
    dice = random.Random(order)
    running = []
    for capability, threads in (("default", 1), ("avx2", 2)):
        line, environment = command(dice.sample(files, 8), capability, threads, order)
        environment[BUDGET] = str(seconds)
        print(f"ATEN_CPU_CAPABILITY={capability} OMP_NUM_THREADS={threads} {SEED}={order} {' '.join(line[1:])}")
        process = subprocess.Popen(line, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        running.append(process)
    outputs = [process.communicate()[0].decode(errors="replace") for process in running]
    for process, output in zip(running, outputs, strict=True):
        print(output if process.returncode else output.strip().splitlines()[-1])
    return sum(process.returncode != 0 for process in running)


def commit() -> str:
    """The current commit. It seeds the choice, which can then be repeated."""
    line = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(line, capture_output=True, text=True, check=False).stdout.strip() or "0"


def main() -> int:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="what pytest runs; everything by default")
    parser.add_argument("--part", type=float, metavar="SECONDS", help="only a few files, for about this long")
    parser.add_argument("--order", default=commit(), help="seed of the order; the commit by default")
    parser.add_argument("--load", type=int, default=os.cpu_count(), help="processes that keep the cores busy")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes that run tests")
    options = parser.parse_args()
    if options.part is not None:
        return int(part(options.part, options.order) > 0)
    failures = whole(options.files, options.order, options.load, options.workers)
    print(f"{12 - failures} of 12 runs passed")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
