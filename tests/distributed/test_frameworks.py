"""Hugging Face Trainer, accelerate and Lightning: real training runs, saved, resumed and logged."""

import copy
import csv
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from gradagrad import AutoGradaGrad, GradaGrad, learning_rates
from gradagrad.integrations._at_average import AtAverage
from gradagrad.integrations.wrappers import unwrapped
from gradagrad.monitoring.diagnostics import readings

from . import models
from .launch import EXAMPLES

# What the frameworks warn about is theirs.
pytestmark = pytest.mark.filterwarnings("ignore")


def example(name: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def assert_same_training(one: nn.Module, two: nn.Module, first: Any, second: Any) -> None:
    """Weights and optimizer state, bit for bit."""
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.equal(a, b)
    left, right = first.state_dict()["state"], second.state_dict()["state"]
    assert left.keys() == right.keys()
    assert left
    for number, state in left.items():
        for key, value in state.items():
            assert torch.equal(value, right[number][key]), key
    assert all(bool(state["step"] > 0) for state in left.values())


def test_hugging_face_trainer_resumes_bit_for_bit_logs_and_works_at_the_average(tmp_path: Path):
    transformers = pytest.importorskip("transformers", reason="needs the frameworks extra")
    hf = example("hf_trainer")
    whole = hf.trainer(tmp_path / "whole", 40)
    whole.train()
    hf.trainer(tmp_path / "parts", 20).train()
    resumed = hf.trainer(tmp_path / "parts", 40)
    resumed.train(resume_from_checkpoint=True)
    assert_same_training(whole.model, resumed.model, whole.optimizer, resumed.optimizer)

    logged = [entry for entry in whole.state.log_history if "loss" in entry]
    assert [entry["step"] for entry in logged] == [10, 20, 30, 40]
    assert logged[-1]["loss"] < 0.9 * logged[0]["loss"]
    gammas = [entry["gradagrad/group0/gamma"] for entry in logged]
    assert len(set(gammas)) == 4
    assert logged[-1]["gradagrad/group1/effective_lr"] == pytest.approx(logged[-1]["gradagrad/group1/gamma"])
    assert [entry["learning_rate"] for entry in logged] == [entry["gradagrad/group0/effective_lr"] for entry in logged]
    events = [
        file for file in (tmp_path / "whole").rglob("events.out.tfevents*") if b"effective_lr" in file.read_bytes()
    ]
    assert events  # the Trainer's own logger has them too

    last = tmp_path / "whole" / "checkpoint-40"
    point, average = (transformers.GPT2LMHeadModel.from_pretrained(path) for path in (last, last / "average"))
    for a, b, c in zip(average.parameters(), whole.model.parameters(), point.parameters(), strict=True):
        assert torch.equal(a, b)
        assert not torch.equal(a, c)
    assert {p.data_ptr() for p in whole.model.parameters()} == {
        p.data_ptr() for group in whole.optimizer.param_groups for p in group["params"]
    }
    (evaluated,) = [
        entry["eval_loss"] for entry in whole.state.log_history if entry["step"] == 40 and "eval_loss" in entry
    ]
    assert whole.evaluate()["eval_loss"] == pytest.approx(evaluated)  # the model is the average now
    with unwrapped(whole.optimizer).averaged():  # and more training would start from it
        assert all(torch.equal(a, b) for a, b in zip(average.parameters(), whole.model.parameters(), strict=True))
    whole.model.load_state_dict(point.state_dict())
    assert whole.evaluate()["eval_loss"] != pytest.approx(evaluated, rel=1e-4)  # and was the points before


def test_accelerate_steps_accumulates_and_resumes(tmp_path: Path):
    accelerate = pytest.importorskip("accelerate", reason="needs the frameworks extra")

    def prepared() -> tuple[Any, Any, Any]:
        accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
        torch.manual_seed(3)
        model = models.Net()
        return accelerator, *accelerator.prepare(model, GradaGrad(model.parameters(), lr=1e-3))

    def train(accelerator: Any, model: Any, optimizer: Any, first: int, last: int) -> None:
        for k in range(first, last):
            for half in (slice(0, 8), slice(8, 16)):
                x, y = models.batch(k)
                with accelerator.accumulate(model):
                    accelerator.backward((model(x[half]) - y[half]).square().mean())
                    optimizer.step()
                    optimizer.zero_grad()

    first = prepared()
    train(*first, 0, 60)
    first[0].save_state(str(tmp_path))
    train(*first, 60, 100)
    expected = models.reference("element")
    # Two half batches accumulated are the whole batch.
    for name, value in first[1].named_parameters():
        torch.testing.assert_close(value.detach(), expected[name], rtol=1e-9, atol=1e-11)

    second = prepared()
    second[0].load_state(str(tmp_path))
    train(*second, 60, 100)
    assert_same_training(first[1], second[1], first[2], second[2])
    assert learning_rates(second[2])["gradagrad/group0/gamma_p95"] > 1e-3


def test_lightning_resumes_bit_for_bit_logs_and_works_at_the_average(tmp_path: Path):
    pytest.importorskip("lightning", reason="needs the frameworks extra")
    module = example("lightning_module")
    whole, model = module.train(tmp_path / "whole", 4, resume=False)
    module.train(tmp_path / "parts", 2, resume=False)
    resumed, other = module.train(tmp_path / "parts", 4, resume=True)
    assert resumed.global_step == 80
    assert_same_training(model, other, whole.optimizers[0], resumed.optimizers[0])
    (file,) = (tmp_path / "whole").rglob("metrics.csv")
    table = list(csv.DictReader(file.open()))
    monitored = [float(row["lr-AutoGradaGrad"]) for row in table if row["lr-AutoGradaGrad"]]
    assert len(set(monitored)) >= 8
    assert max(monitored) < 0.5  # not the factor, which is 1
    rows = [row for row in table if row["loss"]]
    assert float(rows[-1]["loss"]) < 0.8 * float(rows[0]["loss"])
    assert len({row["gradagrad/group0/gamma"] for row in rows}) == len(rows) == 8
    assert float(rows[-1]["gradagrad/group0/effective_lr"]) > 0.0

    # The model, the checkpoint and what is loaded from it are the average; BatchNorm's statistics are measured there.
    iterates = torch.load(tmp_path / "whole" / "last.ckpt", weights_only=False)["gradagrad_points"]
    assert not any(torch.equal(value, iterates[name]) for name, value in model.named_parameters())
    loaded = module.Classifier.load_from_checkpoint(tmp_path / "whole" / "last.ckpt")
    reference = copy.deepcopy(model)
    torch.optim.swa_utils.update_bn(DataLoader(module.spirals(), batch_size=60), reference)
    for name, value in reference.state_dict().items():
        torch.testing.assert_close(value, loaded.state_dict()[name])
        assert torch.equal(model.state_dict()[name], loaded.state_dict()[name])
    # A checkpoint written after training holds what one written in it does, and more training starts from the points.
    whole.save_checkpoint(tmp_path / "later.ckpt")
    saved, later = (torch.load(tmp_path / f, weights_only=True) for f in ("whole/last.ckpt", "later.ckpt"))
    for key in ("state_dict", "gradagrad_points"):
        assert all(torch.equal(value, later[key][name]) for name, value in saved[key].items())
    assert any(not torch.equal(value, saved["gradagrad_points"][name]) for name, value in saved["state_dict"].items())
    for callback in whole.callbacks:
        callback.setup(whole, model, "fit")
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in saved["gradagrad_points"].items())
    with unwrapped(whole.optimizers[0]).averaged():
        assert all(torch.equal(value, saved["state_dict"][name]) for name, value in model.named_parameters())


def test_without_an_average_there_is_nothing_to_put_in_and_a_failure_puts_the_points_back():
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    at = AtAverage([torch.ones(4, 3), torch.ones(4, 7)])  # the second batch does not fit
    assert not at.enter(model, [torch.optim.SGD(model.parameters()), GradaGrad(model.parameters())])
    optimizer = AutoGradaGrad(model.parameters(), gamma0=0.1)
    for _ in range(2):
        model(torch.randn(4, 3)).square().sum().backward()
        optimizer.step()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(RuntimeError, match="shapes"):
        at.enter(model, [optimizer])
    assert not at.inside
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in before.items())
    assert model.training
    assert all(module.training for module in model)


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
    trainer = example("hf_trainer").trainer(tmp_path, 20)
    trainer.args.lr_scheduler_type = "linear"
    with pytest.warns(UserWarning, match='lr_scheduler_type="linear" lowers the learning rate to zero'):
        trainer.train()
    logged = [entry for entry in trainer.state.log_history if "loss" in entry]
    optimizer = trainer.optimizer.optimizer
    steady = {**optimizer.param_groups[0], "lr": optimizer.param_groups[0]["initial_lr"]}
    assert logged[-1]["gradagrad/group0/gamma"] == pytest.approx(readings(optimizer, steady)["gamma"])
    assert logged[-1]["gradagrad/group0/effective_lr"] < 0.1 * logged[-1]["gradagrad/group0/gamma"]
