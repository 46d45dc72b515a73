"""Train a click model with GradaGrad: embedding tables by rows, networks by elements, with checkpoints and diagnostics.

    python examples/dlrm.py                               synthetic clicks, a minute
    python examples/dlrm.py --criteo train.txt            Criteo's own file (look at it with `gradagrad data criteo`)
    python examples/dlrm.py --checkpoint run.pt --resume  go on where a run stopped
    python examples/dlrm.py --torchrec                    the same with torchrec's DLRM, where torchrec is installed

What is specific to GradaGrad is in `make_optimizer`: two param groups with different granularity, and γ₀ = 0.01, the
size at which a first step does a network no harm. Rows of a table are `lazy`: a row keeps its own clock, because most
rows are never touched in two consecutive steps.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from gradagrad import GradaGrad
from gradagrad_lab.data.clicks.stream import HELD_OUT, TRAINING, ClickStream, Rows, joined
from gradagrad_lab.data.criteo import cache as criteo_cache
from gradagrad_lab.problems.clicks.dlrm import DLRM, SIZES, Size

SKIPPED = 0  # a missing extra is no failure


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, evaluate, draw; returns the exit code."""
    options = parse(arguments)
    torch.manual_seed(options.seed)
    training, held_out, sizes = data_of(options)
    if options.torchrec:
        if importlib.util.find_spec("torchrec") is None:
            print("torchrec is not installed: this part is skipped. See the recipe in the documentation's DLRM page.")
            return SKIPPED
        model: nn.Module = TorchrecModel(sizes, options.size)
        networks, tables = split_torchrec(model)
    else:
        model = DLRM(sizes, options.size, seed=options.seed)
        networks, tables = model.networks(), [model.tables.weight]
    optimizer = make_optimizer(networks, tables, options.lr, options.rho)
    counted = sum(p.numel() for p in model.parameters())
    print(f"{counted:,} parameters, {sum(p.numel() for p in tables):,} of them in tables")

    history: list[dict[str, float]] = []
    done = 0
    if options.resume and options.checkpoint and options.checkpoint.exists():
        done, history = load(options.checkpoint, model, optimizer)
        print(f"resumed at step {done:,}")
    done = train(model, optimizer, islice(training, done, options.steps), options, history, done)
    if options.checkpoint:
        save(options.checkpoint, model, optimizer, done, history)
    loss, auc = evaluate(model, held_out)
    print(f"held out: log-loss {loss:.4f}, AUC {auc:.4f}")
    if held_out.teacher is not None:
        teacher = np.where(held_out.clicks > 0.5, held_out.teacher, 1 - held_out.teacher)
        print(f"          the teacher's own log-loss is {-np.log(teacher).mean():.4f}: no model can do better")
    if options.picture and history:
        draw(history, options.picture)
        print(f"diagnostics drawn: {options.picture}")
    return 0


def make_optimizer(networks: Sequence[Tensor], tables: Sequence[Tensor], lr: float, rho: float) -> GradaGrad:
    """Networks: a step size per element. Tables: one per row, each row on its own clock."""
    groups = [
        {"params": list(networks), "granularity": "element"},
        {"params": list(tables), "granularity": "row", "lazy": True},
    ]
    return GradaGrad(groups, lr=lr, rho=rho)


def train(
    model: nn.Module,
    optimizer: GradaGrad,
    batches: Iterable[Rows],
    options: argparse.Namespace,
    history: list[dict[str, float]],
    done: int,
) -> int:
    """The training loop: nothing in it is special, but the diagnostics that are asked for now and then."""
    recent: list[float] = []
    started, begun = time.perf_counter(), done
    for rows in batches:
        optimizer.zero_grad()
        dense, ids, clicks = tensors(rows)
        loss = binary_cross_entropy_with_logits(model(dense, ids), clicks)
        loss.backward()
        optimizer.step()
        recent.append(loss.item())
        done += 1
        if done % options.every == 0:
            entry: dict[str, float] = {"step": done, "loss": sum(recent) / len(recent)}
            for name, found in zip(("networks", "tables"), optimizer.diagnostics(), strict=True):
                entry |= {f"{name} {level}": found.step_size[level] for level in (0.05, 0.5, 0.95)}
                entry[f"{name} growth"] = found.total_growth
            history.append(entry)
            rate = (done - begun) * len(rows.clicks) / (time.perf_counter() - started)
            print(
                f"step {done:>7,}  loss {entry['loss']:.4f}  γ/γ₀ networks {entry['networks growth']:.3g}, "
                f"tables {entry['tables growth']:.3g}  {rate:,.0f} rows/s"
            )
            recent.clear()
            if options.checkpoint:
                save(options.checkpoint, model, optimizer, done, history)
    return done


@torch.no_grad()
def evaluate(model: nn.Module, rows: Rows) -> tuple[float, float]:
    """Log-loss and area under the ROC curve."""
    parts = [tensors(rows.cut(begin, begin + 1024)) for begin in range(0, len(rows.clicks), 1024)]
    logits = torch.cat([model(dense, ids) for dense, ids, _ in parts]).double()
    clicks = torch.from_numpy(rows.clicks).double()
    return float(binary_cross_entropy_with_logits(logits, clicks)), float(roc_auc_score(rows.clicks, logits.numpy()))


def tensors(rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
    """A batch as the model takes it."""
    # Copies: what the cache hands out is memory that must not be written.
    return torch.tensor(rows.dense), torch.tensor(rows.ids, dtype=torch.int64), torch.tensor(rows.clicks)


def data_of(options: argparse.Namespace) -> tuple[Iterator[Rows], Rows, tuple[int, ...]]:
    """Batches to train on, held-out rows, and the rows of each table."""
    if options.criteo is None:
        stream = ClickStream(TRAINING, options.size.cap)
        return (
            cut(stream.blocks(), options.batch),
            ClickStream(HELD_OUT, options.size.cap).rows(options.held_out),
            (stream.table_sizes),
        )
    cache = criteo_cache.build(options.criteo, criteo_cache.Settings(cap=options.size.cap), workers=os.cpu_count() or 1)
    begin, end = cache.span("validation")
    held_out = cache.rows(begin, min(begin + options.held_out, end))
    return cache.batches(options.batch, *cache.span("train")), held_out, cache.table_sizes


def cut(blocks: Iterable[Rows], size: int) -> Iterator[Rows]:
    """Batches of ``size`` rows from larger blocks; what is left of a block joins the next one."""
    rest: list[Rows] = []
    for block in blocks:
        rows = joined([*rest, block])
        whole = len(rows.clicks) // size * size
        yield from (rows.cut(begin, begin + size) for begin in range(0, whole, size))
        rest = [rows.cut(whole, len(rows.clicks))]


def save(path: Path, model: nn.Module, optimizer: GradaGrad, done: int, history: list[dict[str, float]]) -> None:
    """Under a temporary name first: a run killed here leaves the previous checkpoint whole."""
    temporary = path.with_suffix(".tmp")
    content = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "done": done, "history": history}
    torch.save(content, temporary)
    os.replace(temporary, path)


def load(path: Path, model: nn.Module, optimizer: GradaGrad) -> tuple[int, list[dict[str, float]]]:
    """Restores model and optimizer bit for bit; returns how many steps were done and what was noted."""
    saved = torch.load(path, weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return saved["done"], saved["history"]


def draw(history: list[dict[str, float]], path: Path) -> None:
    """Loss, step sizes (median, and the range that holds nine tenths) and growth, from what the run noted."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.5, 3.2), layout="constrained")
    losses, sizes, growths = figure.subplots(1, 3)
    steps = [entry["step"] for entry in history]
    losses.plot(steps, [entry["loss"] for entry in history], color="#1d2733")
    losses.set_title("training loss")
    for name, shade in (("networks", "#0b63ad"), ("tables", "#c2410c")):
        sizes.plot(steps, [entry[f"{name} 0.5"] for entry in history], color=shade, label=name)
        low, high = ([entry[f"{name} {level}"] for entry in history] for level in (0.05, 0.95))
        sizes.fill_between(steps, low, high, color=shade, alpha=0.18, linewidth=0)
        growths.plot(steps, [entry[f"{name} growth"] for entry in history], color=shade, label=name)
    sizes.set(title="step size γ/√α: median, 5–95 %", yscale="log")
    growths.set_title("γ/γ₀, geometric mean")
    sizes.legend(frameon=False)
    for axes in (losses, sizes, growths):
        axes.set_xlabel("step")
        axes.grid(axis="y", color="#e3e7ec")
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


class TorchrecModel(nn.Module):
    """torchrec's DLRM behind our two inputs. Each field is a feature with one id per row."""

    def __init__(self, sizes: tuple[int, ...], size: Size) -> None:
        super().__init__()
        from torchrec.models import dlrm  # pyright: ignore[reportMissingImports]
        from torchrec.modules.embedding_configs import EmbeddingBagConfig  # pyright: ignore[reportMissingImports]
        from torchrec.modules.embedding_modules import EmbeddingBagCollection  # pyright: ignore[reportMissingImports]

        self.names = [f"C{field + 1}" for field in range(len(sizes))]
        configs = [
            EmbeddingBagConfig(
                name=f"table_{name}", embedding_dim=size.dimension, num_embeddings=rows, feature_names=[name]
            )
            for name, rows in zip(self.names, sizes, strict=True)
        ]
        collection = EmbeddingBagCollection(tables=configs, device=torch.device("cpu"))
        for bag in collection.embedding_bags.values():
            bag.sparse = True  # torchrec's own optimizers work on rows; with a plain one, ask for sparse gradients
        self.inner = dlrm.DLRM(
            embedding_bag_collection=collection,
            dense_in_features=13,
            dense_arch_layer_sizes=[*size.bottom, size.dimension],
            over_arch_layer_sizes=[*size.top, 1],
        )
        self.register_buffer("offsets", torch.tensor([0, *sizes[:-1]]).cumsum(0), persistent=False)
        self.offsets: Tensor

    def forward(self, dense: Tensor, ids: Tensor) -> Tensor:
        from torchrec.sparse.jagged_tensor import KeyedJaggedTensor  # pyright: ignore[reportMissingImports]

        values = (ids - self.offsets).t().reshape(-1)
        features = KeyedJaggedTensor(keys=self.names, values=values, lengths=torch.ones_like(values, dtype=torch.int32))
        return self.inner(dense, features).squeeze(1)


def split_torchrec(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Networks and tables."""
    tables = [p for name, p in model.named_parameters() if "embedding_bags" in name]
    return [p for name, p in model.named_parameters() if "embedding_bags" not in name], tables


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--criteo", type=Path, metavar="FILE", help="Criteo's train.txt or .gz; default: synthetic clicks"
    )
    parser.add_argument("--size", choices=SIZES, default="default", help="of the model; kaggle needs about 8 GB")
    parser.add_argument("--cap", type=int, help="most table rows per field")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--held-out", type=int, default=10_240, help="rows to evaluate on")
    parser.add_argument("--lr", type=float, default=0.01, help="γ₀ (default 0.01)")
    parser.add_argument("--rho", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=int, default=100, help="steps between lines, diagnostics and checkpoints")
    parser.add_argument("--checkpoint", type=Path, metavar="FILE")
    parser.add_argument("--resume", action="store_true", help="go on from --checkpoint if it is there")
    parser.add_argument("--picture", type=Path, metavar="FILE.png", help="draw the diagnostics")
    parser.add_argument("--torchrec", action="store_true", help="torchrec's model instead of ours")
    options: Any = parser.parse_args(arguments)
    if options.criteo is not None and not options.criteo.is_file():
        parser.error(f"--criteo: the file {options.criteo} does not exist")
    size = SIZES[options.size]
    options.size = Size(options.cap or size.cap, size.dimension, size.bottom, size.top)
    return options


if __name__ == "__main__":
    sys.exit(main())
