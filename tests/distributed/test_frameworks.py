"""Hugging Face Trainer, accelerate and Lightning: real trainings, saved, resumed and logged."""

from __future__ import annotations

import csv
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from gradagrad import GradaGrad, learning_rates

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
    assert max(state["growth"].max() for state in left.values()) > 1.0


def test_hugging_face_trainer_resumes_bit_for_bit_and_logs(tmp_path: Path):
    pytest.importorskip("transformers", reason="needs the frameworks extra")
    hf = example("hf_trainer")
    whole = hf.trainer(tmp_path / "whole", 40)
    whole.train()
    hf.trainer(tmp_path / "parts", 20).train()
    resumed = hf.trainer(tmp_path / "parts", 40)
    resumed.train(resume_from_checkpoint=True)
    assert_same_training(whole.model, resumed.model, whole.optimizer, resumed.optimizer)
    logged = [entry for entry in whole.state.log_history if "loss" in entry]
    assert [entry["step"] for entry in logged] == [10, 20, 30, 40]
    assert logged[-1]["loss"] < 0.8 * logged[0]["loss"]
    assert logged[-1]["gradagrad/group0/gamma_median"] > 0.005
    assert 0.0 <= logged[-1]["gradagrad/group0/growing"] <= 1.0
    events = [
        file for file in (tmp_path / "whole").rglob("events.out.tfevents*") if b"gamma_median" in file.read_bytes()
    ]
    assert events  # the Trainer's own logger has them too


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
    expected, *_ = models.reference("element", "plain")
    # Two half batches accumulated are the whole batch.
    for name, value in first[1].named_parameters():
        torch.testing.assert_close(value.detach(), expected[name], rtol=1e-9, atol=1e-11)

    second = prepared()
    second[0].load_state(str(tmp_path))
    train(*second, 60, 100)
    assert_same_training(first[1], second[1], first[2], second[2])
    assert learning_rates(second[2])["gradagrad/group0/gamma_p95"] > 1e-3


def test_lightning_resumes_bit_for_bit_and_logs(tmp_path: Path):
    pytest.importorskip("lightning", reason="needs the frameworks extra")
    module = example("lightning_module")
    whole, model = module.train(tmp_path / "whole", 4, resume=False)
    module.train(tmp_path / "parts", 2, resume=False)
    resumed, other = module.train(tmp_path / "parts", 4, resume=True)
    assert resumed.global_step == 80
    assert_same_training(model, other, whole.optimizers[0], resumed.optimizers[0])
    (file,) = (tmp_path / "whole").rglob("metrics.csv")
    rows = [row for row in csv.DictReader(file.open()) if row["loss"]]
    assert float(rows[-1]["loss"]) < 0.8 * float(rows[0]["loss"])
    assert float(rows[-1]["gradagrad/group0/gamma_median"]) > 0.01
    assert 0.0 <= float(rows[-1]["gradagrad/group0/growing"]) <= 1.0
