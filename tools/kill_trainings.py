"""The trainings that `tools/kill.py` kills: figures and suite of the lab, a plain loop, and ranks that save shards."""

from __future__ import annotations

import functools
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from common import forked, leaves

from gradagrad import AutoGradaGrad, GradaGrad

Train = Callable[[Path, Callable[[], None]], None]


@dataclass(frozen=True)
class Kind:
    """A training that can be resumed. ``train`` gets its folder and a function to call after each round."""

    train: Train
    result: Callable[[Path], Any]
    """The result that must be the same in the end."""
    left: Callable[[Path], int]
    """The number of records and checkpoints."""
    torn: Callable[[Path], set[Path]]
    """The files that a kill cut off."""
    plan: Callable[[], Any] = tuple
    """Prepares what all processes share, before the first starts."""
    trainers: int = 1
    """The number of commands that work in the same folder at once."""


def temporary(out: Path) -> set[Path]:
    """Files that were not yet renamed to their final names."""
    return set(out.rglob("*.tmp"))


def lab(runs: Callable[[Any], list[Any]], *, trainers: int = 1) -> Kind:
    """Trains some runs of an experiment as its command does, in this process."""

    def context(out: Path) -> Any:
        from gradagrad_lab.context import Context

        folder = os.environ.get("GRADAGRAD_DATA")
        return Context(out, Path(folder) if folder else None, seeds=1, workers=1)

    @functools.cache
    def plan() -> list[Any]:
        return runs(context(Path()))

    def train(out: Path, after_round: Callable[[], None]) -> None:
        from gradagrad_lab import pool
        from gradagrad_lab import records as records_module
        from gradagrad_lab import train as training
        from gradagrad_lab.problems.clicks import runs as click_runs

        def train_and_tell(group: Any) -> Any:
            trained = training.train(group)
            after_round()
            return trained

        pool.train = train_and_tell  # pyright: ignore[reportPrivateImportUsage]
        pool._WORTH_PROCESSES, records_module.PAUSE, click_runs.STACK = float("inf"), 0.0, 3
        pool.train_missing(context(out), plan(), "killed")

    return Kind(train, records, lab_left, temporary, plan, trainers)


def figure3_runs(context: Any) -> list[Any]:
    """Two small data sets that every machine has, with some settings of GradaGrad each."""
    from gradagrad_lab import data
    from gradagrad_lab.figures.figure3.plan import Trial, variants
    from gradagrad_lab.problems.logistic import Logistic

    problems = [Logistic(data.load(name)) for name in ("iris", "wine")]
    return [run for problem in problems for run in Trial(problem, 40, (0,)).runs(variants()[::5])]


def figure4_runs(context: Any) -> list[Any]:
    """DLRM on few rows: stacks of runs, and single runs as at the paper's size with small tables."""
    from gradagrad_lab.figures.figure4 import study as figure4
    from gradagrad_lab.problems.clicks.dlrm import Size
    from gradagrad_lab.problems.clicks.rows import Setup

    class SmallTables(Setup):
        @property
        def size(self) -> Size:
            return Size(300, 16, self.bottom, self.top)

    context.rows, context.data_dir = 2560, None
    chosen = list(figure4.plan_of(context).scalar_runs())[:7]
    setup = SmallTables(rows=2560, held_out=256, paper=True)
    problem = replace(chosen[0].problem, setup=setup)
    return chosen + [replace(run, problem=problem, size=setup.steps) for run in chosen[:3]]


def suite_runs(context: Any) -> list[Any]:
    """AutoGradaGrad and its peers on some problems, a few steps of each."""
    from gradagrad_lab.figures.suite.plan import size_of

    runs = size_of(context).untuned()
    names = list(dict.fromkeys(run.problem.name for run in runs))[:3]
    return [replace(run, size=80) for name in names for run in [r for r in runs if r.problem.name == name][:5]]


def records(out: Path) -> dict[str, Any]:
    """All records without times and places."""
    files = sorted((out / "records").glob("*.json"))
    runs = {key: run for path in files for key, run in json.loads(path.read_bytes())["runs"].items()}
    return {key: {name: run[name] for name in ("config", "seed", "curves")} for key, run in runs.items()}


def lab_left(out: Path) -> int:
    """Finished runs."""
    return len(records(out))


def loop(out: Path, after_round: Callable[[], None]) -> None:
    """Trains dense and sparse parameters with averages and bf16 state, and saves a checkpoint after every step."""
    torch.manual_seed(0)
    table, net = torch.nn.Embedding(50, 8, sparse=True), torch.nn.Linear(8, 3)
    other = torch.nn.ParameterList([torch.ones(7)])
    automatic = AutoGradaGrad([*table.parameters(), *net.parameters()], state_dtype=torch.bfloat16)
    shared = GradaGrad(other.parameters(), lr=0.1, momentum=0.9, granularity="group")
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(automatic, 60)
    parts: tuple[Any, ...] = (table, net, other, automatic, shared, schedule)
    path, temporary = out / "checkpoint.pt", out / f".{os.getpid()}.tmp"
    begun = 0
    if path.exists():
        begun, states = torch.load(path, weights_only=True)
        for part, state in zip(parts, states, strict=True):
            part.load_state_dict(state)
    for step in range(begun, 60):
        dice = torch.Generator().manual_seed(step)
        rows = torch.randint(50, (16,), generator=dice)
        for optimizer in (automatic, shared):
            optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(table(rows)), rows % 3).backward()
        other[0].grad = other[0].detach() - torch.randn(7, generator=dice)
        for stepped in (automatic, shared, schedule):
            stepped.step()
        torch.save([step + 1, [part.state_dict() for part in parts]], temporary)
        os.replace(temporary, path)
        after_round()


def loaded(out: Path) -> dict[str, Any]:
    """Weights, both optimizers and the schedule."""
    return leaves(torch.load(out / "checkpoint.pt", weights_only=True))


RANKS, DISTRIBUTED_STEPS = 2, 30


def sharded(out: Path, after_round: Callable[[], None]) -> None:
    """Forks the ranks of FSDP2 and waits. If one dies the others do too, as under torchrun."""
    store = tempfile.mkdtemp(dir=out)
    children = [forked(functools.partial(rank_of_sharded, rank, out, store, after_round)) for rank in range(RANKS)]
    codes = [os.waitpid(child, 0)[1] for child in children]
    if any(codes):
        raise SystemExit(f"ranks ended with {codes}")


def rank_of_sharded(rank: int, out: Path, store: str, after_round: Callable[[], None]) -> None:
    """One rank. It resumes from the last complete checkpoint; `.metadata` is the file written last."""
    from torch import distributed as dist
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{store}/store", rank=rank, world_size=RANKS)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    fully_shard(model, mesh=init_device_mesh("cpu", (RANKS,)))
    optimizer = GradaGrad(model.parameters(), 0.1, rho=10.0, granularity="group")
    whole = {int(p.parent.name.removeprefix("step_")): p.parent for p in out.glob("step_*/.metadata")}
    begun = max(whole, default=0)
    if whole:
        weights, state = get_state_dict(model, optimizer)
        checkpoint.load({"model": weights, "optimizer": state}, checkpoint_id=whole[begun])
        set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=state)
    for step in range(begun + 1, DISTRIBUTED_STEPS + 1):
        x = torch.randn(8, 6, generator=torch.Generator().manual_seed(step))[rank::RANKS]
        optimizer.zero_grad()
        (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()
        if rank == 0:
            after_round()
        weights, state = get_state_dict(model, optimizer)
        checkpoint.save({"model": weights, "optimizer": state}, checkpoint_id=out / f"step_{step}")
    dist.destroy_process_group()


def gathered(out: Path) -> dict[str, Any]:
    """The last checkpoint with its shards joined."""
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    target = out / "whole.pt"
    dcp_to_torch_save(out / f"step_{DISTRIBUTED_STEPS}", target)
    return leaves(torch.load(target, weights_only=False))


def sharded_left(out: Path) -> int:
    """The number of complete checkpoints."""
    return len(list(out.glob("step_*/.metadata")))


def sharded_torn(out: Path) -> set[Path]:
    """Incomplete checkpoints."""
    return {path for path in out.glob("step_*") if not (path / ".metadata").exists()}


KINDS = {
    "figure3": lab(figure3_runs),
    "figure3, two commands": lab(figure3_runs, trainers=2),
    "figure4": lab(figure4_runs),
    "suite": lab(suite_runs),
    "checkpoints": Kind(loop, loaded, lambda out: int((out / "checkpoint.pt").exists()), temporary),
    "sharded save": Kind(sharded, gathered, sharded_left, sharded_torn),
}
