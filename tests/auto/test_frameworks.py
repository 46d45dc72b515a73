"""The Hugging Face Trainer and Lightning, through the examples, with AutoGradaGrad instead of GradaGrad."""

import csv
from pathlib import Path
from typing import Any

import pytest
import torch
from distributed.test_frameworks import example

from gradagrad import AutoGradaGrad
from gradagrad.monitoring.diagnostics import readings

from .cases import assert_same

# What the frameworks warn about is theirs.
pytestmark = pytest.mark.filterwarnings("ignore")


def _median(optimizer: AutoGradaGrad) -> float:
    return readings(optimizer, optimizer.param_groups[0])["gamma"]


class Untuned(AutoGradaGrad):
    """Leaves aside the lr that the examples have chosen for GradaGrad."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params)


def test_hugging_face_trainer_resumes_bit_for_bit_and_logs(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="needs the frameworks extra")
    hf: Any = example("hf_trainer")
    hf.GradaGrad = Untuned
    whole = hf.trainer(tmp_path / "whole", 40)
    whole.train()
    resumed = hf.trainer(tmp_path / "again", 40)
    resumed.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-20"))
    first, second = whole.optimizer.optimizer, resumed.optimizer.optimizer
    assert isinstance(first, AutoGradaGrad)
    assert_same(first, second)
    assert len(first.param_groups) == 2  # the Trainer's own: with and without decay
    logged = [entry for entry in whole.state.log_history if "loss" in entry]
    assert logged[-1]["loss"] < logged[0]["loss"]
    assert logged[-1]["gradagrad/group0/gamma"] == pytest.approx(_median(first))
    assert _median(first) > 1e-3
    with first.averaged():
        assert torch.isfinite(whole.model(torch.zeros(1, 4, dtype=torch.long)).logits).all()


def test_lightning_resumes_bit_for_bit_and_logs(tmp_path: Path) -> None:
    pytest.importorskip("lightning", reason="needs the frameworks extra")
    module: Any = example("lightning_module")
    module.GradaGrad = Untuned
    whole, model = module.train(tmp_path / "whole", 2, resume=False)
    module.train(tmp_path / "parts", 1, resume=False)
    resumed, _ = module.train(tmp_path / "parts", 2, resume=True)
    first, second = whole.optimizers[0], resumed.optimizers[0]
    assert_same(first, second)
    (file,) = (tmp_path / "whole").rglob("metrics.csv")
    rows = [row for row in csv.DictReader(file.open()) if row["loss"]]
    assert float(rows[-1]["loss"]) < float(rows[0]["loss"])
    assert float(rows[-1]["gradagrad/group0/gamma"]) > 1e-3
    assert {"gradagrad/group0/gamma", "gradagrad/group0/effective_lr"} <= rows[-1].keys()
    assert first.averaged_state_dict(model).keys() == model.state_dict().keys()


def test_lightning_measures_batch_norm_without_a_forward(tmp_path: Path) -> None:
    pl: Any = pytest.importorskip("lightning.pytorch", reason="needs the frameworks extra")
    from gradagrad.integrations.lightning import GradaGradCallback

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))

        def training_step(self, batch: Any) -> Any:
            loss = self.net(batch).square().mean()
            self.log("loss", loss)
            return loss

        def configure_optimizers(self) -> Any:
            return AutoGradaGrad(self.parameters())

    torch.manual_seed(0)
    data, module = torch.randn(32, 2), Module()
    batches = torch.utils.data.DataLoader(data, batch_size=8)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = pl.Trainer(
        max_epochs=1, callbacks=[GradaGradCallback(batches=batches)], default_root_dir=tmp_path, **quiet
    )
    trainer.fit(module, batches)
    torch.testing.assert_close(module.net[1].running_mean, module.net[0](data).mean(dim=0))


def test_hugging_face_schedule_to_zero_is_named_and_leaves_gamma(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="needs the frameworks extra")
    hf: Any = example("hf_trainer")
    hf.GradaGrad = Untuned
    trainer = hf.trainer(tmp_path, 20)
    trainer.args.lr_scheduler_type = "linear"
    with pytest.warns(UserWarning, match='lr_scheduler_type="linear" lowers the learning rate to zero'):
        trainer.train()
    logged = [entry for entry in trainer.state.log_history if "loss" in entry]
    optimizer = trainer.optimizer.optimizer
    steady = {**optimizer.param_groups[0], "lr": optimizer.param_groups[0]["initial_lr"]}
    assert logged[-1]["gradagrad/group0/gamma"] == pytest.approx(readings(optimizer, steady)["gamma"])
    assert logged[-1]["gradagrad/group0/effective_lr"] < 0.1 * logged[-1]["gradagrad/group0/gamma"]
