"""This tree's kernel beside another commit's, in one interleaved run: ``python -m benchmarks.versus bcbc4db``.

The other commit is built in a scratch folder under another name (2 minutes), so that both run in one process. Where
arrays lie in memory moves a step's time by up to a fifth, more than the kernels differ; so both step on the same
arrays, and again on others. Ratios are to fused Adam (torch's Adagrad where gradients are sparse): medians of rounds in
an order drawn anew, and of these the middle one of the placements, with the smallest and the largest.
"""

import argparse
import importlib
import io
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks import workloads as what
from benchmarks.speed import time_rounds
from gradagrad import GradaGrad

OTHER = "othergrad"
LR = 1e-6
ROOT = Path(__file__).parent.parent
_BF16 = torch.bfloat16
DENSE: dict[str, dict[str, Any]] = {
    "element": {},
    "element, momentum": {"momentum": 0.9},
    "element, bf16 state": {"state_dtype": _BF16},
    "row": {"granularity": "row"},
    "tensor": {"granularity": "tensor"},
    "group": {"granularity": "group"},
    "group, momentum": {"granularity": "group", "momentum": 0.9},
}
SPARSE: dict[str, dict[str, Any]] = {"element, lazy": {"lazy": True}, "element": {}}


def build(commit: str, folder: Path) -> None:
    """The commit's package under the name `OTHER`, with its kernel."""
    packed = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True)
    if packed.returncode:
        raise SystemExit(f"commit must be one of this repository's, got {commit!r}; git log lists them.")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    (folder / "src/gradagrad").rename(folder / "src" / OTHER)
    for path in [folder / "setup.py", *(folder / "src" / OTHER).rglob("*")]:
        if path.suffix in (".py", ".cpp", ".h"):
            path.write_text(path.read_text().replace("gradagrad", OTHER))
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    built = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if built.returncode:
        raise SystemExit(f"{commit} could not be built here:\n{built.stdout}")


def bf16_tensor(size: int) -> what.Workload:
    work = what.one_tensor(size)
    work.name = "one bf16 tensor"
    work.params = [torch.nn.Parameter(p.detach().to(_BF16)) for p in work.params]
    work.gradients = [[g.to(_BF16) for g in grads] for grads in work.gradients[:2]]
    return work


def share_state(ours: GradaGrad, theirs: Any) -> None:
    """Gives the other commit's optimizer our arrays, where it has one like it."""
    for parameter, state in ours.state.items():
        others = theirs.state[parameter]
        for key in state.keys() & others.keys():
            if state[key].shape == others[key].shape and state[key].dtype == others[key].dtype:
                others[key] = state[key]


def time_once(work: what.Workload, theirs: Any, options: dict[str, Any], rounds: int) -> tuple[float, float]:
    """Both as ratios to the reference, on arrays made for this call."""
    sparse = work.gradients[0][0].layout != torch.strided
    work.use(0)
    base = torch.optim.Adagrad(work.params, LR) if sparse else torch.optim.Adam(work.params, LR, fused=True)
    ours, others = (kind(work.params, LR, fused=True, **options) for kind in (GradaGrad, theirs))
    steps: dict[str, Callable[[], object]] = {"base": base.step, "after": ours.step, "before": others.step}
    for step in steps.values():
        step()
    share_state(ours, others)
    for step in steps.values():
        step()
    times = time_rounds(steps, work, rounds, repeat=20 if work.elements < 100_000 else 5 if sparse else 1)
    median = {key: statistics.median(own) for key, own in times.items()}
    return median["before"] / median["base"], median["after"] / median["base"]


def compare(make: Callable[[], what.Workload], theirs: Any, rounds: int, placements: int) -> None:
    work = make()
    sparse = work.gradients[0][0].layout != torch.strided
    print(f"\n{work.name}, {work.elements:,} elements, {torch.get_num_threads()} threads: before, after, after/before")
    for name, options in (SPARSE if sparse else DENSE).items():
        times = [time_once(make(), theirs, options, rounds) for _ in range(placements)]
        before, after = (statistics.median(own) for own in zip(*times, strict=True))
        ratios = sorted(new / old for old, new in times)
        shown = f"{statistics.median(ratios):6.2f}  ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        print(f"  {name:22} {before:6.2f} {after:6.2f} {shown}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit")
    parser.add_argument("--built", type=Path, default=None, help="a folder in which it was built before, or shall be")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=15, help="on each placement; more, steadier medians")
    parser.add_argument("--placements", type=int, default=5, help="how often the arrays are made anew")
    options = parser.parse_args()
    folder = options.built or Path(tempfile.mkdtemp())
    if not (folder / "src" / OTHER).exists():
        build(options.commit, folder)
    sys.path.insert(0, str(folder / "src"))
    theirs = importlib.import_module(OTHER).GradaGrad
    makers = (
        partial(what.one_tensor, 6_000_000),
        partial(bf16_tensor, 6_000_000),
        what.tiny_tensors,
        partial(what.dense, "4 tiny tensors", [(8, 8)] * 4),
        partial(what.embedding, 100_000, 16, 4_096),
    )
    for threads in options.threads:
        torch.set_num_threads(threads)
        for make in makers:
            compare(make, theirs, options.rounds, options.placements)


if __name__ == "__main__":
    main()
