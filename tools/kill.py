"""Kills trainings at random moments, resumes them, and shows that each ends bit for bit where an undisturbed one ends.

    python tools/kill.py                        a few kills of each kind
    python tools/kill.py --kills 200            as many in all
    python tools/kill.py figure4 --seed 7       one kind, other moments

The signal is SIGKILL, which nothing can catch, and it goes to all processes of the training at once (of the distributed
one to one rank first). It comes at a random moment after the training has reported its first round, so not while it
starts; the table says how many rounds the killed lives had trained and what they had left on the disk. Checkpoints are
made after every round instead of every few seconds, so that many kills fall into one.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import random
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from gradagrad import AutoGradaGrad, GradaGrad

MOST_KILLS = 12  # of one training; then it is left in peace


class Counter:
    """A number that processes share."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 8)

    def add(self) -> None:
        self._memory[:] = struct.pack("q", self.value + 1)

    @property
    def value(self) -> int:
        return struct.unpack("q", self._memory[:])[0]


Train = Callable[[Path, Callable[[], None]], None]


@dataclass(frozen=True)
class Kind:
    """A training that can be resumed: it is told where it keeps things and whom to tell of each round."""

    train: Train
    result: Callable[[Path], Any]
    """What must be the same in the end."""
    left: Callable[[Path], int]
    """How many records and checkpoints lie there."""
    trainers: int = 1
    """Commands that work in the same folder at once."""


# The lab: figures and the suite, some runs of each. ---------------------------------------------------------------


def lab(runs: Callable[[Any], list[Any]]) -> Train:
    """Trains some runs of an experiment as its command does, in this process."""

    def train(out: Path, told: Callable[[], None]) -> None:
        from gradagrad_lab import pool, training
        from gradagrad_lab.context import Context

        class Hooks(training.Hooks):
            def __init__(self, progress: Any, *others: Any) -> None:
                super().__init__(lambda part: (progress(part), told())[0], *others)

        pool.Hooks = Hooks  # pyright: ignore[reportPrivateImportUsage]
        training.CHECKPOINT_SECONDS = (0.0, 0.0)
        folder = os.environ.get("GRADAGRAD_DATA")
        context = Context(out, Path(folder) if folder else None, seeds=1, workers=1)
        context.pool.train(runs(context), "killed")

    return train


def figure3_runs(context: Any) -> list[Any]:
    """The smallest set, with every setting of GradaGrad."""
    from gradagrad_lab.figures import figure3_plan

    found = figure3_plan.plan(context).runs
    return [run for run in found if run.problem.label == found[0].problem.label][:4]


def figure4_runs(context: Any) -> list[Any]:
    """DLRM on few rows."""
    from gradagrad_lab.figures import figure4

    context.rows, context.data_dir = 4096, None
    return list(figure4.plan_of(context).scalar_runs())[:4]


def suite_runs(context: Any) -> list[Any]:
    """AutoGradaGrad and its peers on some problems."""
    from gradagrad_lab.suite.plan import size_of

    runs = size_of(context).untuned()
    names = list(dict.fromkeys(run.problem.label for run in runs))[:2]
    return [run for run in runs if run.problem.label in names][:5]


def records(out: Path) -> dict[str, Any]:
    """All records but for times and places."""
    found = {}
    for path in sorted((out / "records").glob("*.json")):
        content = json.loads(path.read_bytes())
        found[path.stem] = {name: content[name] for name in ("config", "seeds", "status", "curves")}
    return found


def lab_left(out: Path) -> int:
    """Finished runs, and unfinished ones with a checkpoint."""
    return len(list((out / "records").glob("*.json"))) + len(list((out / "partial").glob("*.pt")))


# A training loop of one's own with checkpoints, as README shows it. ----------------------------------------------


def loop(out: Path, told: Callable[[], None]) -> None:
    """A net, dense and sparse parameters, averages and bf16 state; a checkpoint after every step."""
    torch.manual_seed(0)
    table, net = torch.nn.Embedding(50, 8, sparse=True), torch.nn.Linear(8, 3)
    params = [*table.parameters(), *net.parameters()]
    optimizers = [
        AutoGradaGrad(params, averaging="polynomial", state_dtype=torch.bfloat16),
        GradaGrad([torch.nn.Parameter(torch.ones(7))], lr=0.1, momentum=0.9, granularity="group"),
    ]
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizers[0], 60)
    path = out / "checkpoint.pt"
    begun = 0
    if path.exists():
        saved = torch.load(path, weights_only=True)
        table.load_state_dict(saved["table"])
        net.load_state_dict(saved["net"])
        optimizers[1].param_groups[0]["params"][0].data.copy_(saved["other"])
        for optimizer, state in zip(optimizers, saved["optimizers"], strict=True):
            optimizer.load_state_dict(state)
        schedule.load_state_dict(saved["schedule"])
        begun = saved["step"]
    other = optimizers[1].param_groups[0]["params"][0]
    for step in range(begun, 60):
        dice = torch.Generator().manual_seed(step)
        rows = torch.randint(50, (16,), generator=dice)
        loss = torch.nn.functional.cross_entropy(net(table(rows)), rows % 3)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        other.grad = other.detach() - torch.randn(7, generator=dice)
        for optimizer in optimizers:
            optimizer.step()
        schedule.step()
        content = {
            "table": table.state_dict(),
            "net": net.state_dict(),
            "other": other.detach(),
            "optimizers": [optimizer.state_dict() for optimizer in optimizers],
            "schedule": schedule.state_dict(),
            "step": step + 1,
        }
        torch.save(content, out / f".{os.getpid()}.tmp")
        os.replace(out / f".{os.getpid()}.tmp", path)
        told()


def loaded(out: Path) -> dict[str, Any]:
    """Weights, both optimizers and the schedule."""
    return leaves(torch.load(out / "checkpoint.pt", weights_only=True))


def leaves(value: Any, name: str = "") -> dict[str, Any]:
    """Nested dictionaries and lists, flat, tensors as bytes."""
    if isinstance(value, dict):
        return {n: leaf for key, part in value.items() for n, leaf in leaves(part, f"{name}/{key}").items()}
    if isinstance(value, list):
        return {n: leaf for i, part in enumerate(value) for n, leaf in leaves(part, f"{name}/{i}").items()}
    if isinstance(value, torch.Tensor):
        return {name: (value.dtype, tuple(value.shape), value.contiguous().view(-1).view(torch.uint8).tolist())}
    return {name: value}


# Two ranks with FSDP2 that save their shards, with torch.distributed.checkpoint. ---------------------------------

RANKS, DISTRIBUTED_STEPS, SAVE_EVERY = 2, 30, 3


def sharded(out: Path, told: Callable[[], None]) -> None:
    """Forks the ranks and waits; if one dies, so does the rest, as under torchrun."""
    store = tempfile.mkdtemp(dir=out)
    children = []
    for rank in range(RANKS):
        if (child := os.fork()) == 0:
            code = 1
            try:
                rank_of_sharded(rank, out, store, told)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        children.append(child)
    (out / "victim").write_text(str(random.choice(children)))
    codes = [os.waitpid(child, 0)[1] for child in children]
    if any(codes):
        raise SystemExit(f"ranks ended with {codes}")


def rank_of_sharded(rank: int, out: Path, store: str, told: Callable[[], None]) -> None:
    """One rank: goes on from the last whole checkpoint, whose `.metadata` is written last."""
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
            told()
        if step % SAVE_EVERY == 0:
            weights, state = get_state_dict(model, optimizer)
            checkpoint.save({"model": weights, "optimizer": state}, checkpoint_id=out / f"step_{step}")
    dist.destroy_process_group()


def gathered(out: Path) -> dict[str, Any]:
    """The last checkpoint, its shards put together."""
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    target = out / "whole.pt"
    dcp_to_torch_save(out / f"step_{DISTRIBUTED_STEPS}", target)
    return leaves(torch.load(target, weights_only=False))


def sharded_left(out: Path) -> int:
    """Whole checkpoints."""
    return len(list(out.glob("step_*/.metadata")))


KINDS = {
    "figure3": Kind(lab(figure3_runs), records, lab_left),
    "figure3, two commands": Kind(lab(figure3_runs), records, lab_left, trainers=2),
    "figure4": Kind(lab(figure4_runs), records, lab_left),
    "suite": Kind(lab(suite_runs), records, lab_left),
    "checkpoints": Kind(loop, loaded, lambda out: int((out / "checkpoint.pt").exists())),
    "sharded save": Kind(sharded, gathered, sharded_left),
}


# The killing. -----------------------------------------------------------------------------------------------------


@contextmanager
def life(kind: Kind, out: Path, counter: Counter) -> Iterator[list[int]]:
    """Processes that train in a folder, each in a session of its own; what is left of them in the end is killed."""
    children = []
    for _ in range(kind.trainers):
        if (child := os.fork()) == 0:
            code = 1
            try:
                os.setsid()
                log = os.open(out / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
                os.dup2(log, 1)
                os.dup2(log, 2)
                kind.train(out, counter.add)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        children.append(child)
    try:
        yield children
    finally:
        for child in children:
            _kill(child)


def _kill(child: int) -> None:
    for send in (os.killpg, os.kill):  # a child that has not come to setsid has no group yet
        with suppress(ProcessLookupError, PermissionError):
            send(child, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(child, 0)


def ended(children: list[int]) -> list[int]:
    """Exit codes of those that have ended by themselves; they are not waited for again."""
    codes = []
    for child in list(children):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            children.remove(child)
            codes.append(os.waitstatus_to_exitcode(status))
    return codes


@dataclass
class Tally:
    """What came of the kills of one kind."""

    kills: int = 0
    trainings: int = 0
    equal: int = 0
    rounds: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)


def undisturbed(kind: Kind, out: Path) -> tuple[Any, float]:
    """What a training ends with, and how many seconds it takes from its first round on."""
    out.mkdir()
    counter = Counter()
    one = Kind(kind.train, kind.result, kind.left)
    with life(one, out, counter) as children:
        while not counter.value:
            time.sleep(0.005)
        begun = time.monotonic()
        codes: list[int] = []
        while not (codes := ended(children)):
            time.sleep(0.005)
    if codes != [0]:
        raise SystemExit(f"the undisturbed training failed:\n{(out / 'log.txt').read_text()[-3000:]}")
    return kind.result(out), time.monotonic() - begun


def disturbed(kind: Kind, out: Path, seconds: float, wanted: int, dice: random.Random, tally: Tally) -> Any:
    """Kills a training until it has been killed often enough or is done, lets it end, and returns its result."""
    out.mkdir()
    killed = 0
    while True:
        counter = Counter()
        in_peace = killed >= min(wanted, MOST_KILLS)
        moment = None if in_peace else dice.uniform(0.0, 0.3 * seconds)
        with life(kind, out, counter) as children:
            begun = None
            codes: list[int] = []
            while children:
                codes += ended(children)
                if begun is None and counter.value:
                    begun = time.monotonic()
                if moment is not None and begun is not None and time.monotonic() - begun >= moment and children:
                    break
                time.sleep(0.002)
            if not children:
                if any(codes):
                    raise SystemExit(f"a resumed training failed:\n{(out / 'log.txt').read_text()[-3000:]}")
                return kind.result(out)
            if (out / "victim").exists() and dice.random() < 0.8:
                # One rank first: the other is then inside a collective that never ends, or sees it break.
                with suppress(ProcessLookupError, ValueError):
                    os.kill(int((out / "victim").read_text()), signal.SIGKILL)
                time.sleep(dice.uniform(0.0, 0.1))
        killed += 1
        tally.kills += 1
        tally.rounds.append(counter.value)
        tally.left.append(kind.left(out))


def campaign(name: str, kills: int, dice: random.Random, folder: Path) -> Tally:
    """Trainings of one kind until so many kills have been made."""
    kind, tally = KINDS[name], Tally()
    expected, seconds = undisturbed(kind, folder / "undisturbed")
    while tally.kills < kills:
        before = tally.kills
        out = folder / f"killed-{tally.trainings}"
        result = disturbed(kind, out, seconds, kills - before, dice, tally)
        if tally.kills == before:
            seconds /= 2  # it was done before its moment came
            shutil.rmtree(out)
            continue
        tally.trainings += 1
        tally.equal += result == expected
    return tally


def main() -> int:
    """Prints a table; exit code 1 if a training did not end where it should."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", help=f"which of: {', '.join(KINDS)}")
    parser.add_argument("--kills", type=int, default=18, help="in all")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    options = parser.parse_args()
    names = options.kinds or list(KINDS)
    if unknown := set(names) - set(KINDS):
        parser.error(f"no such kind: {', '.join(unknown)}")
    torch.set_num_threads(1)
    dice = random.Random(options.seed)
    random.seed(options.seed)
    print("| training | kills | rounds trained in the killed lives | left on disk | trainings | equal bit for bit |")
    print("|---|---|---|---|---|---|", flush=True)
    total, wrong = 0, 0
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            tally = campaign(name, -(-options.kills // len(names)), dice, Path(folder))
        spans = [f"{min(found)} to {max(found)}" for found in (tally.rounds, tally.left)]
        print(f"| {name} | {tally.kills} | {' | '.join(spans)} | {tally.trainings} | {tally.equal} |", flush=True)
        total += tally.kills
        wrong += tally.trainings - tally.equal
    print(f"{total} kills, {wrong} trainings that ended elsewhere")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
