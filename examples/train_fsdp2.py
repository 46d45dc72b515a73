r"""A character model under FSDP2 with distributed checkpoints that survives the loss of a rank.

    TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 \
        torchrun --standalone --nproc-per-node 2 --max-restarts 3 examples/train_fsdp2.py --checkpoints run

Parameters, gradients and optimizer state are sharded. With granularity="tensor" or "group" a step needs one all-reduce
of two numbers per tensor; "element" needs none. If a rank dies, torchrun restarts all ranks, and they resume from the
last complete checkpoint, on any number of ranks. The backend is Gloo on a CPU and NCCL on GPUs. The variable keeps
restarted ranks from finding the addresses of dead ones in torchrun's store (pytorch/pytorch#135712).
"""

import argparse
import os
from pathlib import Path

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from gradagrad import GradaGrad, learning_rates

TEXT = (
    "gradients that keep agreeing make the sum negative; then, instead of shrinking the denominator, the numerator "
    "grows. so the learning rate rises and falls, and a start that is too small repairs itself. "
) * 8
ALPHABET = sorted(set(TEXT))


class CharacterModel(nn.Module):
    """Predicts each character from those before it."""

    def __init__(self, width: int = 32, layers: int = 2, context: int = 32) -> None:
        super().__init__()
        self.characters = nn.Embedding(len(ALPHABET), width)
        self.places = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 2, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.head = nn.Linear(width, len(ALPHABET))

    def forward(self, text: Tensor) -> Tensor:
        """Logits of the next character, one row for each place of each text."""
        places = torch.arange(text.shape[1], device=text.device)
        causal = nn.Transformer.generate_square_subsequent_mask(text.shape[1], device=text.device)
        x = self.characters(text) + self.places(places)
        for block in self.blocks:
            x = block(x, src_mask=causal, is_causal=True)
        return self.head(x.flatten(0, 1))


def batch(step: int, rows: int, context: int = 32) -> Tensor:
    """The step's pieces of text, the same in every process and after every restart."""
    text = torch.tensor([ALPHABET.index(character) for character in TEXT])
    starts = torch.randint(len(text) - context, (rows,), generator=torch.Generator().manual_seed(step))
    return torch.stack([text[s : s + context + 1] for s in starts.tolist()])


def last_whole(folder: Path) -> Path | None:
    """The newest complete checkpoint. `.metadata` is written last, so an interrupted save has none."""
    found = {int(path.parent.name.removeprefix("step_")): path.parent for path in folder.glob("step_*/.metadata")}
    return found[max(found)] if found else None


def main() -> None:
    """Trains from the last complete checkpoint and saves new ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--batch", type=int, default=16, help="rows of all ranks together")
    parser.add_argument("--granularity", default="tensor", choices=["element", "row", "tensor", "group"])
    parser.add_argument("--checkpoints", type=Path, help="folder to save to and to resume from")
    parser.add_argument("--save-every", type=int, default=40)
    arguments = parser.parse_args()

    gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if gpu else "gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)

    torch.manual_seed(0)
    model = CharacterModel().to(device)
    mesh = init_device_mesh(device.type, (ranks,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    lr, rho = (0.01, 2.0) if arguments.granularity == "element" else (0.1, 10.0)
    optimizer = GradaGrad(model.parameters(), lr, rho=rho, granularity=arguments.granularity)

    start = 0
    if arguments.checkpoints and (newest := last_whole(arguments.checkpoints)):
        weights, state = get_state_dict(model, optimizer)
        checkpoint.load({"model": weights, "optimizer": state}, checkpoint_id=newest)
        set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=state)
        start = int(newest.name.removeprefix("step_"))
        if rank == 0:
            print(f"resumed from step {start} on {ranks} rank(s)", flush=True)

    mine = slice(rank * arguments.batch // ranks, (rank + 1) * arguments.batch // ranks)
    for step in range(start + 1, arguments.steps + 1):
        text = batch(step, arguments.batch)[mine].to(device)
        loss = nn.functional.cross_entropy(model(text[:, :-1]), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
        if rank == 0 and (step % 20 == 0 or step == arguments.steps):
            gamma = learning_rates(optimizer)["gradagrad/group0/gamma_median"]
            print(f"step {step}: loss {loss.item():.4f}, median γ {gamma:.4g}", flush=True)
        if arguments.checkpoints and (step % arguments.save_every == 0 or step == arguments.steps):
            weights, state = get_state_dict(model, optimizer)
            folder = arguments.checkpoints / f"step_{step}"
            checkpoint.save({"model": weights, "optimizer": state}, checkpoint_id=folder)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
