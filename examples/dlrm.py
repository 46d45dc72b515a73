"""Train a click model with AutoGradaGrad, with checkpoints and diagnostics.

    python examples/dlrm.py                               synthetic clicks, a minute
    python examples/dlrm.py --criteo train.txt            Criteo's own file (inspect it with `gradagrad data criteo`)
    python examples/dlrm.py --checkpoint run.pt --resume  resume a run
    python examples/dlrm.py --rows                        if memory is short: GradaGrad, tables with a step size per row

Only `make_optimizer` is specific to gradagrad. With ``--rows``, the tables are `lazy`, so a row that a batch does not
touch keeps its state. Most rows are never touched in two consecutive steps.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad_lab.data import criteo
from gradagrad_lab.data.clicks.stream import BLOCK, HELD_OUT, TRAINING, ClickStream, Rows
from gradagrad_lab.problems.clicks.dlrm import DLRM, SIZES, Size


def main(arguments: Sequence[str] | None = None) -> int:
    """Trains and evaluates; returns the exit code."""
    options = parse(arguments)
    torch.manual_seed(options.seed)
    training, held_out, sizes = data_of(options)
    model = DLRM(sizes, options.size, seed=options.seed)
    tables = [model.tables.weight]
    optimizer = make_optimizer(model.networks(), tables, options.lr if options.rows else None)

    done = 0
    if options.resume and options.checkpoint and options.checkpoint.exists():
        done = load(options.checkpoint, model, optimizer)
        print(f"resumed at step {done:,}")
    done = train(model, optimizer, islice(training, done, options.steps), options, done)
    if options.checkpoint:
        save(options.checkpoint, model, optimizer, done)
    if isinstance(optimizer, AutoGradaGrad):
        optimizer.eval()  # evaluate at the average
    loss, auc = evaluate(model, held_out)
    print(f"held out: log-loss {loss:.4f}, AUC {auc:.4f}")
    if held_out.teacher is not None:
        teacher = np.where(held_out.clicks > 0.5, held_out.teacher, 1 - held_out.teacher)
        print(f"          the teacher's own log-loss is {-np.log(teacher).mean():.4f}, which no model can improve on")
    return 0


def make_optimizer(
    networks: Sequence[Tensor], tables: Sequence[Tensor], lr: float | None = None
) -> AutoGradaGrad | GradaGrad:
    """AutoGradaGrad needs no lr. With one, GradaGrad: a step size per element of networks and per row of tables."""
    if lr is None:
        return AutoGradaGrad([{"params": list(networks)}, {"params": list(tables)}])
    by_rows = {"params": list(tables), "granularity": "row", "lazy": True, "lr": 10 * lr}
    return GradaGrad([{"params": list(networks)}, by_rows], lr=lr)


def train(
    model: nn.Module,
    optimizer: AutoGradaGrad | GradaGrad,
    batches: Iterable[Rows],
    options: argparse.Namespace,
    done: int,
) -> int:
    """An ordinary training loop that prints diagnostics and saves a checkpoint every so many steps."""
    recent: list[float] = []
    for rows in batches:
        optimizer.zero_grad()
        dense, ids, clicks = tensors(rows)
        loss = binary_cross_entropy_with_logits(model(dense, ids), clicks)
        loss.backward()
        optimizer.step()
        recent.append(loss.item())
        done += 1
        if done % options.every == 0:
            print(f"step {done:>7,}  loss {sum(recent) / len(recent):.4f}", end="")
            for name, found in zip(("networks", "tables"), optimizer.diagnostics(), strict=True):
                print(f"  {name}: γ/γ₀ {found.total_growth:.3g}, median step size {found.step_size[0.5]:.3g}", end="")
            print()
            recent.clear()
            if options.checkpoint:
                save(options.checkpoint, model, optimizer, done)
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
    # torch.tensor copies, because the memory of the cache must not be written.
    return torch.tensor(rows.dense), torch.tensor(rows.ids, dtype=torch.int64), torch.tensor(rows.clicks)


def data_of(options: argparse.Namespace) -> tuple[Iterator[Rows], Rows, tuple[int, ...]]:
    """Batches to train on, held-out rows, and the rows of each table."""
    if options.criteo is None:
        stream = ClickStream(TRAINING, options.size.cap)
        held_out = ClickStream(HELD_OUT, options.size.cap).rows(options.held_out)
        starts = range(0, BLOCK, options.batch)
        batches = (block.cut(begin, begin + options.batch) for block in stream.blocks() for begin in starts)
        return batches, held_out, stream.table_sizes
    cache = criteo.build(options.criteo, criteo.Settings(cap=options.size.cap))
    begin, end = cache.span("validation")
    held_out = cache.rows(begin, min(begin + options.held_out, end))
    return cache.batches(options.batch, *cache.span("train")), held_out, cache.table_sizes


def save(path: Path, model: nn.Module, optimizer: AutoGradaGrad | GradaGrad, done: int) -> None:
    """Writes under a temporary name first, so a run killed here keeps the previous checkpoint."""
    temporary = path.with_suffix(".tmp")
    state = optimizer.state_dict()  # before the model's: rows without a gradient catch up
    torch.save({"model": model.state_dict(), "optimizer": state, "done": done}, temporary)
    os.replace(temporary, path)


def load(path: Path, model: nn.Module, optimizer: AutoGradaGrad | GradaGrad) -> int:
    """Restores model and optimizer bit for bit; returns the number of steps done."""
    saved = torch.load(path, weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return saved["done"]


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--criteo", type=Path, metavar="FILE", help="Criteo's train.txt (.gz), not synthetic clicks")
    parser.add_argument("--size", choices=SIZES, default="default", help="of the model; kaggle needs about 8 GB")
    parser.add_argument("--cap", type=int, help="most table rows per field")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--held-out", type=int, default=10_240, help="rows to evaluate on")
    parser.add_argument("--rows", action="store_true", help="GradaGrad, with a step size per row of a table")
    parser.add_argument("--lr", type=float, default=0.01, help="with --rows, γ₀ of networks, a tenth of tables' (0.01)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=int, default=100, help="steps between lines, diagnostics and checkpoints")
    parser.add_argument("--checkpoint", type=Path, metavar="FILE")
    parser.add_argument("--resume", action="store_true", help="resume from --checkpoint if it exists")
    options = parser.parse_args(arguments)
    if options.criteo is not None and not options.criteo.is_file():
        parser.error(f"--criteo: the file {options.criteo} does not exist")
    size = SIZES[options.size]
    options.size = Size(options.cap or size.cap, size.dimension, size.bottom, size.top)
    return options


if __name__ == "__main__":
    sys.exit(main())
