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
    assert all(map(torch.equal, one.parameters(), two.parameters()))
    left, right = first.state_dict()["state"], second.state_dict()["state"]
    assert left
    torch.testing.assert_close(left, right, rtol=0, atol=0)
    assert all(bool(state["step"] > 0) for state in left.values())


def shown_losses(trainer: Any) -> list[float]:
    """Rounding makes resumed runs drift: biases that a norm or an attention cancels follow noise."""
    return [entry[key] for entry in trainer.state.log_history for key in ("loss", "eval_loss") if key in entry]


@pytest.mark.parametrize("callback", [True, False])
def test_hugging_face_trainer_evaluates_and_saves_at_the_average_and_resumes(callback: bool, tmp_path: Path):
    """With our callback, and without it: the Trainer calls eval() and train() itself."""
    transformers = pytest.importorskip("transformers", reason="needs the frameworks extra")
    from gradagrad.integrations.transformers import GradaGradCallback

    def made(folder: str, steps: int) -> Any:
        trainer = example("hf_trainer").trainer(tmp_path / folder, steps)
        if not callback:
            trainer.remove_callback(GradaGradCallback)
        return trainer

    whole = made("whole", 40)
    whole.train()
    made("parts", 20).train()
    resumed = made("parts", 40)
    resumed.train(resume_from_checkpoint=True)
    assert shown_losses(resumed) == pytest.approx(shown_losses(whole), rel=2e-4)

    logged = [entry for entry in whole.state.log_history if "loss" in entry]
    assert [entry["step"] for entry in logged] == [10, 20, 30, 40]
    assert logged[-1]["loss"] < 0.9 * logged[0]["loss"]
    if callback:
        gammas = [entry["gradagrad/group0/gamma"] for entry in logged]
        assert len(set(gammas)) == 4
        rates = [entry["gradagrad/group0/effective_lr"] for entry in logged]
        assert [entry["learning_rate"] for entry in logged] == rates
        assert logged[-1]["gradagrad/group1/effective_lr"] == pytest.approx(logged[-1]["gradagrad/group1/gamma"])
        events = (tmp_path / "whole").rglob("events.out.tfevents*")
        assert any(b"effective_lr" in file.read_bytes() for file in events)  # the Trainer's own logger has them too

    saved = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "whole" / "checkpoint-40")
    assert all(map(torch.equal, saved.parameters(), whole.model.parameters()))
    (evaluated,) = [
        entry["eval_loss"] for entry in whole.state.log_history if entry["step"] == 40 and "eval_loss" in entry
    ]
    assert whole.evaluate()["eval_loss"] == pytest.approx(evaluated)
    unwrapped(whole.optimizer).train()
    assert not any(map(torch.equal, saved.parameters(), whole.model.parameters()))


def test_hugging_face_trainer_without_evaluations_resumes_bit_for_bit(tmp_path: Path):
    pytest.importorskip("transformers", reason="needs the frameworks extra")
    runs: list[Any] = []
    for folder, steps, resumes in (("whole", 12, False), ("parts", 6, False), ("parts", 12, True)):
        trainer = example("hf_trainer").trainer(tmp_path / folder, steps)
        trainer.args.eval_strategy, trainer.args.save_steps = "no", 6
        trainer.callback_handler.callbacks = trainer.callback_handler.callbacks[:1]  # not ours
        trainer.train(resume_from_checkpoint=resumes)
        runs.append(trainer)
    assert_same_training(runs[0].model, runs[2].model, runs[0].optimizer, runs[2].optimizer)


def test_hugging_face_best_model_and_batch_norm(tmp_path: Path):
    """Every checkpoint is at the average, with the callback also those without an evaluation."""
    transformers = pytest.importorskip("transformers", reason="needs the frameworks extra")
    from gradagrad.integrations.transformers import GradaGradCallback

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))

        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> Any:
            return {"loss": (self.net(x) - labels).square().mean(), "logits": x}

    torch.manual_seed(0)
    x = torch.randn(64, 2)
    rows = [{"x": row, "labels": row[:1]} for row in x]
    for evaluates in (True, False):
        model = Net()
        optimizer = AutoGradaGrad(model.parameters(), gamma0=0.1)
        arguments = transformers.TrainingArguments(
            str(tmp_path / str(evaluates)), max_steps=12, save_steps=4, eval_steps=4, lr_scheduler_type="constant",
            load_best_model_at_end=evaluates, eval_strategy="steps" if evaluates else "no", save_strategy="steps",
            report_to=[], use_cpu=True, disable_tqdm=True,
        )  # fmt: skip
        batches = [{"x": x, "labels": x[:, :1]}]
        trainer = transformers.Trainer(
            model, arguments, train_dataset=rows, eval_dataset=rows, optimizers=(optimizer, None),
            callbacks=[GradaGradCallback(batches=batches)],
        )  # fmt: skip
        trainer.train()
        torch.testing.assert_close(model.net[1].running_mean, model.net[0](x).mean(0))
        if evaluates:
            assert trainer.evaluate()["eval_loss"] == pytest.approx(trainer.state.best_metric)
        state = torch.load(tmp_path / str(evaluates) / "checkpoint-12" / "optimizer.pt", weights_only=True)
        assert state["param_groups"][0]["mode"] == "eval"


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

    first[2].eval()  # nothing, because GradaGrad has no average
    second = prepared()
    second[0].load_state(str(tmp_path))
    train(*second, 60, 100)
    assert_same_training(first[1], second[1], first[2], second[2])
    assert learning_rates(second[2])["gradagrad/group0/gamma_p95"] > 1e-3


def test_accelerate_saves_at_the_average_and_resumes(tmp_path: Path):
    accelerate = pytest.importorskip("accelerate", reason="needs the frameworks extra")

    def prepared() -> tuple[Any, Any, Any]:
        accelerator = accelerate.Accelerator(cpu=True)
        torch.manual_seed(3)
        model = models.Net()
        return accelerator, *accelerator.prepare(model, AutoGradaGrad(model.parameters(), gamma0=1e-2))

    def train(accelerator: Any, model: Any, optimizer: Any, first: int, last: int) -> None:
        optimizer.train()
        for k in range(first, last):
            x, y = models.batch(k)
            optimizer.zero_grad()
            accelerator.backward((model(x) - y).square().mean())
            optimizer.step()
        optimizer.eval()

    first, second = prepared(), prepared()
    train(*first, 0, 20)
    first[0].save_state(str(tmp_path))
    exported = unwrapped(first[2]).averaged_state_dict(first[1])
    second[0].load_state(str(tmp_path))
    assert all(torch.equal(value, exported[name]) for name, value in second[1].state_dict().items())
    for one in (first, second):
        train(*one, 20, 30)
    for a, b in zip(first[1].parameters(), second[1].parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_lightning_resumes_logs_and_works_at_the_average(tmp_path: Path):
    lightning = pytest.importorskip("lightning", reason="needs the frameworks extra")
    module = example("lightning_module")
    whole, model = module.train(tmp_path / "whole", 4, resume=False)
    module.train(tmp_path / "parts", 2, resume=False)
    resumed, other = module.train(tmp_path / "parts", 4, resume=True)
    assert resumed.global_step == 80
    for name in ("loss", "accuracy"):
        assert float(resumed.logged_metrics[name]) == pytest.approx(float(whole.logged_metrics[name]), abs=0.01)
    assert not torch.equal(model.net[1].weight, other.net[1].weight)
    (file,) = (tmp_path / "whole").rglob("metrics.csv")
    table = list(csv.DictReader(file.open()))
    rows = [row for row in table if row["loss"]]
    assert float(rows[-1]["loss"]) < 0.8 * float(rows[0]["loss"])
    assert len({row["gradagrad/group0/gamma"] for row in rows}) == len(rows) == 8
    assert float(rows[-1]["gradagrad/group0/effective_lr"]) > 0.0

    # The model, the checkpoint and what is loaded from it are the average; BatchNorm's statistics are measured there.
    loaded = module.Classifier.load_from_checkpoint(tmp_path / "whole" / "last.ckpt")
    reference = copy.deepcopy(model)
    torch.optim.swa_utils.update_bn(DataLoader(module.spirals(), batch_size=60), reference)
    for name, value in reference.state_dict().items():
        torch.testing.assert_close(value, loaded.state_dict()[name])
        assert torch.equal(model.state_dict()[name], loaded.state_dict()[name])
    # A checkpoint written after training holds what one written in it does.
    whole.save_checkpoint(tmp_path / "later.ckpt")
    optimizer = unwrapped(whole.optimizers[0])
    optimizer.train()
    assert not any(torch.equal(value, loaded.state_dict()[name]) for name, value in model.named_parameters())
    whole.save_checkpoint(tmp_path / "train.ckpt")
    assert not any(torch.equal(value, loaded.state_dict()[name]) for name, value in model.named_parameters())
    for name in ("whole/last.ckpt", "later.ckpt", "train.ckpt"):
        saved = torch.load(tmp_path / name, weights_only=True)
        assert saved["optimizer_states"][0]["param_groups"][0]["mode"] == "eval"
        assert all(torch.equal(value, saved["state_dict"][key]) for key, value in loaded.named_parameters()), name

    # Without the callback a resumed run would go on from averages, so it stops.
    for callback in [c for c in whole.callbacks if isinstance(c, module.GradaGradCallback)]:
        whole.callbacks.remove(callback)
    whole.fit_loop.max_epochs = 5
    with pytest.raises(RuntimeError, match=r"in eval mode: .* Call optimizer\.train\(\)"):
        whole.fit(module.Classifier(), DataLoader(module.spirals(), batch_size=60), ckpt_path=tmp_path / "later.ckpt")

    both = [module.GradaGradCallback(), lightning.pytorch.callbacks.EMAWeightAveraging()]
    trainer = lightning.Trainer(max_epochs=1, logger=False, callbacks=both, default_root_dir=tmp_path)
    with pytest.raises(ValueError, match="EMAWeightAveraging and GradaGradCallback would both"):
        trainer.fit(module.Classifier(), DataLoader(module.spirals(), batch_size=60))


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


def watched(interrupted: bool = False) -> Any:
    """A model that notes its weights in every forward pass, and in evaluations also its averages."""
    pl: Any = pytest.importorskip("lightning.pytorch", reason="needs the frameworks extra")

    class Watched(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
            self.optimizer = AutoGradaGrad(self.net.parameters(), gamma0=0.1)
            self.trained, self.evaluated = list[Any](), list[Any]()

        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> Any:
            (self.trained if self.training else self.evaluated).append(self.now())
            if not self.training:
                with self.optimizer.averaged():
                    self.evaluated.append(self.now())
                self.evaluated += [[*self.optimizer.averaged_state_dict(self.net).values()], self.now()]
                if interrupted:
                    raise KeyboardInterrupt
            return {"loss": (self.net(x) - labels).square().mean(), "logits": x}

        def training_step(self, batch: Any) -> Any:
            return self(**batch)["loss"]

        validation_step = training_step

        def configure_optimizers(self) -> Any:
            return self.optimizer

        def now(self) -> list[torch.Tensor]:
            return [p.detach().clone() for p in self.net.parameters()]

    return Watched()


ONLY = torch.randn(8, 2, generator=torch.Generator().manual_seed(0))
ROWS: Any = [{"x": ONLY, "labels": ONLY[:, :1]}]  # A single batch has no order that changes a sum.


def by_hand(model: Any, steps: int) -> None:
    for k in range(steps):
        model.optimizer.zero_grad()
        model.train().training_step(ROWS[0]).backward()
        model.optimizer.step()
        if k % 2:
            model.eval().training_step(ROWS[0])


def by_lightning(model: Any, callbacks: int, folder: Path) -> None:
    from gradagrad.integrations.lightning import GradaGradCallback, pl

    own = [GradaGradCallback(log=False)] * callbacks
    quiet = {"logger": False, "num_sanity_val_steps": 0, "accelerator": "cpu", "default_root_dir": folder}
    trainer = pl.Trainer(max_epochs=6, check_val_every_n_epoch=2, callbacks=own, **quiet)
    trainer.fit(model, DataLoader(ROWS), DataLoader(ROWS))


def by_hugging_face(model: Any, callbacks: int, folder: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="needs the frameworks extra")
    from gradagrad.integrations.transformers import GradaGradCallback

    own: Any = {"optimizers": (model.optimizer, None), "callbacks": [GradaGradCallback(log=False)] * callbacks}
    arguments = transformers.TrainingArguments(
        str(folder), max_steps=6, eval_steps=2, save_steps=2, eval_strategy="steps", lr_scheduler_type="constant",
        max_grad_norm=0.0, report_to=[], use_cpu=True,
    )  # fmt: skip
    transformers.Trainer(model, arguments, train_dataset=ROWS, eval_dataset=ROWS, **own).train()


@pytest.mark.parametrize("callbacks", [1, 2])
@pytest.mark.parametrize("fit", [by_lightning, by_hugging_face])
def test_callbacks_and_averaged_together_take_the_average_once(fit: Any, callbacks: int, tmp_path: Path) -> None:
    expected, found = watched(), watched()
    by_hand(expected, 6)
    fit(found, callbacks, tmp_path)
    averages = [average for average in expected.evaluated[1::4] for _ in range(4)]
    assert not any(map(torch.equal, expected.evaluated[0], averages[0]))
    torch.testing.assert_close([*found.evaluated, found.now()], [*averages, averages[-1]], rtol=0, atol=0)
    found.optimizer.train()
    by_hand(expected, 2)
    by_hand(found, 2)
    torch.testing.assert_close(found.trained, expected.trained, rtol=0, atol=0)


def test_ctrl_c_in_an_evaluation_leaves_an_optimizer_that_knows_its_mode(tmp_path: Path) -> None:
    expected, found = watched(), watched(interrupted=True)
    by_hand(expected, 4)
    with pytest.raises(KeyboardInterrupt):
        by_hugging_face(found, 1, tmp_path)
    with pytest.raises(RuntimeError, match=r"in eval mode: .* Call optimizer\.train\(\)"):
        found.optimizer.step()
    found.optimizer.train()
    torch.testing.assert_close(found.now(), expected.trained[2], rtol=0, atol=0)
