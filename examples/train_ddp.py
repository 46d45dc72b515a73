"""A click model with sparse embedding tables under DistributedDataParallel.

    torchrun --standalone --nproc-per-node 2 examples/train_ddp.py

Tables have one step size per row, and rows that a batch does not touch stay idle. The net on top has one step size per
weight. The backend is Gloo on a CPU and NCCL on GPUs. Without torchrun the example trains in one process to the same
model, because DDP averages the gradients.
"""

import argparse
import os

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

from gradagrad import GradaGrad, log_learning_rates

USERS, ITEMS, WIDTH = 300, 200, 8


class Clicks(nn.Module):
    """Does this user click on this item?"""

    def __init__(self) -> None:
        super().__init__()
        self.users = nn.Embedding(USERS, WIDTH, sparse=True)
        self.items = nn.Embedding(ITEMS, WIDTH, sparse=True)
        self.top = nn.Sequential(nn.Linear(2 * WIDTH, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        """The logit of a click."""
        return self.top(torch.cat([self.users(user), self.items(item)], dim=1)).squeeze(1)


def clicks(step: int, rows: int) -> tuple[Tensor, Tensor, Tensor]:
    """The step's batch. Users and items have a hidden taste, the same in every process."""
    taste = torch.Generator().manual_seed(0)
    users, items = torch.randn(USERS, generator=taste), torch.randn(ITEMS, generator=taste)
    generator = torch.Generator().manual_seed(1 + step)
    user = torch.randint(USERS, (rows,), generator=generator)
    item = torch.randint(ITEMS, (rows,), generator=generator)
    chance = torch.sigmoid(2.0 * (users[user] + items[item]))
    return user, item, torch.bernoulli(chance, generator=generator)


def main() -> None:
    """Trains and prints the loss and the learning rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=256, help="rows of all ranks together")
    arguments = parser.parse_args()

    distributed = "RANK" in os.environ  # set by torchrun
    gpu = torch.cuda.is_available()
    if distributed:
        dist.init_process_group("nccl" if gpu else "gloo")
    rank, ranks = (dist.get_rank(), dist.get_world_size()) if distributed else (0, 1)
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if gpu else torch.device("cpu")

    torch.manual_seed(0)
    model = Clicks().to(device)
    tables = [model.users.weight, model.items.weight]
    rows = {"params": tables, "granularity": "row", "lazy": True, "lr": 0.1}
    optimizer = GradaGrad([rows, {"params": model.top.parameters(), "lr": 0.01}])
    parallel = DistributedDataParallel(model) if distributed else model
    history = log_learning_rates(optimizer, every=10)

    losses: list[float] = []
    mine = slice(rank * arguments.batch // ranks, (rank + 1) * arguments.batch // ranks)
    for step in range(arguments.steps):
        user, item, clicked = (part[mine].to(device) for part in clicks(step, arguments.batch))
        loss = nn.functional.binary_cross_entropy_with_logits(parallel(user, item), clicked)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    if distributed:
        average = torch.tensor(losses, device=device)
        dist.all_reduce(average)
        losses = (average / ranks).tolist()
    if rank == 0:
        first, last = losses[:20], losses[-20:]
        print(f"{arguments.steps} steps on {ranks} rank(s)")
        print(f"loss {sum(first) / len(first):.4f} -> {sum(last) / len(last):.4f}")
        for name, group in zip(("tables", "net"), history[-1].groups, strict=True):
            gamma, largest = group.gamma[0.5], group.gamma[1.0]
            print(f"{name}: median γ {gamma:.3g}, largest {largest:.3g}")
    if distributed:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
