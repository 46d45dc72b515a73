"""The example: it learns, and it resumes to the same numbers."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from gradagrad import AutoGradaGrad
from lab.rows import text_rows

PATH = Path(__file__).parents[2] / "examples" / "dlrm.py"
SMALL = ["--size", "small", "--cap", "200", "--batch", "32", "--held-out", "512", "--every", "10"]


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("example_dlrm", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_resuming_gives_the_same_run(example: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole, parts = tmp_path / "whole.pt", tmp_path / "parts.pt"
    assert example.main([*SMALL, "--steps", "40", "--checkpoint", str(whole)]) == 0
    said = capsys.readouterr().out
    assert "AUC" in said
    assert "the teacher's own log-loss" in said
    assert example.main([*SMALL, "--steps", "20", "--checkpoint", str(parts)]) == 0
    assert example.main([*SMALL, "--steps", "40", "--checkpoint", str(parts), "--resume"]) == 0
    assert "resumed at step 20" in capsys.readouterr().out
    a, b = (torch.load(path, weights_only=True) for path in (whole, parts))
    assert a["done"] == b["done"] == 40
    for name, values in a["model"].items():
        assert torch.equal(values, b["model"][name]), name
    for number, state in a["optimizer"]["state"].items():
        for key, values in state.items():
            assert torch.equal(values, b["optimizer"]["state"][number][key]), (number, key)


def test_groups_have_their_own_granularity(example: ModuleType) -> None:
    networks, tables = [torch.nn.Parameter(torch.ones(3))], [torch.nn.Parameter(torch.ones(5, 2))]
    assert isinstance(example.make_optimizer(networks, tables), AutoGradaGrad)
    optimizer = example.make_optimizer(networks, tables, 0.01)
    found = [(group["granularity"], group["lazy"]) for group in optimizer.param_groups]
    assert found == [("element", False), ("row", True)]


def test_criteo_file(example: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "train.txt"
    path.write_bytes(b"\n".join(text_rows(1500)))
    assert example.main([*SMALL, "--steps", "30", "--criteo", str(path)]) == 0
    assert "held out: log-loss" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        example.main([*SMALL, "--criteo", str(tmp_path / "nowhere.txt")])
    assert "does not exist" in capsys.readouterr().err
