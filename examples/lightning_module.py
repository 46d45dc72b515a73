"""A classifier as a LightningModule, with the adapted learning rate in Lightning's logger.

    python examples/lightning_module.py --output run
    python examples/lightning_module.py --output run --epochs 20 --resume

Two lines are specific to gradagrad: `configure_optimizers` returns AutoGradaGrad, which needs no learning rate, and the
callback logs the adapted rate, validates at the average of the iterates and saves that average with its own BatchNorm
statistics.
"""

import argparse
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from gradagrad import AutoGradaGrad
from gradagrad.integrations.lightning import GradaGradCallback


class Classifier(lightning.LightningModule):
    """Which of three spirals is this point on?"""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2, 64), nn.BatchNorm1d(64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3)
        )

    def forward(self, points: Tensor) -> Tensor:
        """A score for each spiral."""
        return self.net(points)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """The loss of a batch."""
        points, labels = batch
        loss = nn.functional.cross_entropy(self(points), labels)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        """The accuracy. The callback has put the average into the model."""
        points, labels = batch
        self.log("accuracy", (self(points).argmax(dim=1) == labels).float().mean())

    def configure_optimizers(self) -> AutoGradaGrad:
        """AutoGradaGrad needs no learning rate and no schedule."""
        return AutoGradaGrad(self.parameters())


def spirals(rows: int = 1200, seed: int = 0) -> TensorDataset:
    """Noisy points of three spirals."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(rows) % 3
    radius = torch.rand(rows, generator=generator)
    angle = 4.0 * radius + labels * 2.1 + 0.2 * torch.randn(rows, generator=generator)
    return TensorDataset(torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1), labels)


def train(output: Path, epochs: int, *, resume: bool) -> tuple[lightning.Trainer, Classifier]:
    """Trains to ``epochs``, from the last checkpoint if asked."""
    lightning.seed_everything(0, verbose=False)
    batches = DataLoader(spirals(), batch_size=60)  # 20 steps an epoch
    unseen = DataLoader(spirals(600, seed=1), batch_size=600)
    trainer = lightning.Trainer(
        max_epochs=epochs,
        accelerator="auto" if torch.cuda.is_available() else "cpu",
        devices=1,
        logger=CSVLogger(str(output)),
        callbacks=[
            ModelCheckpoint(dirpath=output, save_last=True),
            GradaGradCallback(batches=batches),
        ],
        log_every_n_steps=10,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    model = Classifier()
    trainer.fit(model, batches, unseen, ckpt_path=output / "last.ckpt" if resume else None)
    return trainer, model


def main() -> None:
    """Trains and prints the adapted learning rate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("lightning_run"))
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--resume", action="store_true", help="resume from the last checkpoint in the output folder")
    arguments = parser.parse_args()
    trainer, _ = train(arguments.output, arguments.epochs, resume=arguments.resume)
    numbers = {name: float(value) for name, value in trainer.logged_metrics.items()}
    print(f"step {trainer.global_step}: loss {numbers['loss']:.4f}, accuracy of the average {numbers['accuracy']:.1%}")
    print(f"γ {numbers['gradagrad/group0/gamma']:.4g}, learning rate {numbers['gradagrad/group0/effective_lr']:.4g}")


if __name__ == "__main__":
    main()
