"""A rank that is killed inside an all-reduce; the same command goes on: `tools/mishaps.py` runs this, twice.

    torchrun --nproc-per-node 2 tools/dead_rank.py (replicated | sharded) FOLDER

In its first life rank 1 dies by SIGKILL while rank 0 waits for it: in DDP's sum of gradients, or in the optimizer's own
sum under FSDP2. In the second life the training goes on from its last checkpoint, and must end bit for bit where an
undisturbed one ends, which every life trains first.
"""

from __future__ import annotations

import datetime as dt
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch
from torch import distributed as dist
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from gradagrad import GradaGrad

STEPS, FATAL = 6, 4


def die(*_: Any) -> None:
    """Now, by what nothing can catch."""
    os.kill(os.getpid(), signal.SIGKILL)


def train(sharded: bool, folder: Path | None, fatal: int | None) -> list[torch.Tensor]:
    """The weights in the end. With a folder, a checkpoint after every step, and on from the last that is whole."""
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    model: Any = fully_shard(plain) if sharded else DistributedDataParallel(plain)
    optimizer = GradaGrad(model.parameters(), 0.1, rho=10.0, momentum=0.5, granularity="group")
    begun = 0
    if folder is not None:
        whole = {int(path.parent.name): path.parent for path in folder.glob("*/.metadata")}
        begun = max(whole, default=0)
        if whole:
            weights, state = get_state_dict(model, optimizer)
            checkpoint.load({"model": weights, "optimizer": state}, checkpoint_id=whole[begun])
            set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=state)
    real = dist.all_reduce
    for step in range(begun + 1, STEPS + 1):
        x = torch.randn(8, 6, generator=torch.Generator().manual_seed(step))[dist.get_rank() :: 2]
        optimizer.zero_grad()
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        if step == fatal and sharded:
            dist.all_reduce = die
        elif step == fatal:
            plain[0].weight.register_hook(die)
        loss.backward()
        optimizer.step()
        dist.all_reduce = real
        if folder is not None:
            weights, state = get_state_dict(model, optimizer)
            checkpoint.save({"model": weights, "optimizer": state}, checkpoint_id=folder / str(step))
    return [p.full_tensor() if hasattr(p, "full_tensor") else p.detach() for p in plain.parameters()]


def main(kind: str, folder: Path) -> None:
    """One life of one rank; what it saw is left in the folder."""
    dist.init_process_group("gloo", timeout=dt.timedelta(seconds=120))
    rank, life = dist.get_rank(), int((folder / "seen").exists())
    dist.barrier()  # before one life can leave what the other looks for
    expected = train(kind == "sharded", None, None)
    try:
        found = train(kind == "sharded", folder, FATAL if life == 0 and rank == 1 else None)
    except Exception as error:
        (folder / "seen").write_text(f"{type(error).__name__}: {str(error).splitlines()[0]}")
        raise
    equal = all(map(torch.equal, expected, found))
    (folder / f"rank{rank}").write_text(f"life {life} {'equal' if equal else 'DIFFERENT'}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
