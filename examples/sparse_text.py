"""A sparse text classifier, GradaGrad in the place of AdaGrad: which package of the standard library is a line from?

    python examples/sparse_text.py

Each word has a row of an embedding bag with sparse gradients, so that a step costs what its words cost. One line
changes from AdaGrad to GradaGrad; both start from learning rates that are too small, about right and too large.
"""

from __future__ import annotations

import argparse
import re
import sysconfig
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gradagrad import GradaGrad

PACKAGES = ("asyncio", "email", "importlib", "unittest", "xml")
BUCKETS = 2**14
Lines = tuple[list[Tensor], Tensor]


def lines(most: int) -> Lines:
    """Lines of source as hashed words, in random order, and their packages."""
    library = Path(sysconfig.get_path("stdlib"))
    words: list[Tensor] = []
    labels: list[int] = []
    for label, package in enumerate(PACKAGES):
        for path in sorted((library / package).glob("*.py")):
            for line in path.read_text(encoding="utf-8", errors="ignore").splitlines():
                tokens = re.findall(r"\w+", line)
                if len(tokens) > 2:
                    words.append(torch.tensor([zlib.crc32(t.encode()) % BUCKETS for t in tokens]))
                    labels.append(label)
    order = torch.randperm(len(words), generator=torch.Generator().manual_seed(0))[:most].tolist()
    return [words[i] for i in order], torch.tensor([labels[i] for i in order])


def scores(model: nn.EmbeddingBag, words: list[Tensor]) -> Tensor:
    """One number for each package: the sum of the words' rows."""
    offsets = torch.tensor([0, *map(len, words[:-1])]).cumsum(0)
    return model(torch.cat(words), offsets)


def accuracy(make: Callable[[Any], torch.optim.Optimizer], data: Lines, epochs: int = 2, batch: int = 64) -> float:
    """Held-out accuracy after training on four fifths."""
    words, labels = data
    held_out = len(words) // 5
    model = nn.EmbeddingBag(BUCKETS, len(PACKAGES), mode="sum", sparse=True)
    nn.init.zeros_(model.weight)
    optimizer = make(model.parameters())
    for _ in range(epochs):
        for first in range(held_out, len(words), batch):
            optimizer.zero_grad()
            nn.functional.cross_entropy(
                scores(model, words[first : first + batch]), labels[first : first + batch]
            ).backward()
            optimizer.step()
    with torch.no_grad():
        return float((scores(model, words[:held_out]).argmax(1) == labels[:held_out]).float().mean())


def main(most: int = 12_000) -> dict[float, tuple[float, float]]:
    """Trains from three learning rates and prints both optimizers' accuracy."""
    data = lines(most)
    results: dict[float, tuple[float, float]] = {}
    for lr in (1e-3, 0.1, 1.0):
        results[lr] = (
            accuracy(lambda p, lr=lr: torch.optim.Adagrad(p, lr=lr), data),
            accuracy(lambda p, lr=lr: GradaGrad(p, lr=lr, lazy=True), data),
        )
        print(f"lr {lr:5}: AdaGrad {results[lr][0]:.1%}, GradaGrad {results[lr][1]:.1%}")
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=12_000, help="how many lines to use at most")
    main(parser.parse_args().lines)
