"""The examples that torchrun starts run as their first lines say, also when they are killed."""

import re
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from .launch import EXAMPLES, python, torchrun


def loaded(folder: Path, target: Path) -> Any:
    """A distributed checkpoint as one ordinary dictionary."""
    dcp_to_torch_save(folder, target)
    return torch.load(target, weights_only=False)


def leaves(value: Any, name: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        return {n: leaf for key, part in value.items() for n, leaf in leaves(part, f"{name}/{key}").items()}
    if isinstance(value, list):
        return {n: leaf for i, part in enumerate(value) for n, leaf in leaves(part, f"{name}/{i}").items()}
    return {name: value}


def assert_bit_for_bit(first: Any, second: Any) -> None:
    left, right = leaves(first), leaves(second)
    assert left.keys() == right.keys()
    for name, value in left.items():
        assert torch.equal(value, right[name]) if isinstance(value, torch.Tensor) else value == right[name], name


def test_a_killed_rank_costs_nothing_but_time(tmp_path: Path):
    """Killed at step 14, then halfway through the save at step 20, the run ends where an undisturbed one ends."""
    options = ["--steps", "30", "--save-every", "10", "--granularity", "group", "--checkpoints"]
    script = EXAMPLES / "train_fsdp2.py"
    quiet_output = torchrun(2, script, *options, tmp_path / "quiet")
    output = torchrun(2, Path(__file__).with_name("killer.py"), script, *options, tmp_path / "killed", restarts=3)
    # Two lives went on from step 10: the second death left a step_20 with half a file in it and no .metadata.
    assert re.findall(r"resumed from step (\d+)", output) == ["10", "10"], output
    quiet = loaded(tmp_path / "quiet" / "step_30", tmp_path / "quiet.pt")
    killed = loaded(tmp_path / "killed" / "step_30", tmp_path / "killed.pt")
    assert_bit_for_bit(killed, quiet)
    growths = [value for name, value in leaves(quiet).items() if name.endswith("/growth")]
    assert growths
    assert max(growth.max() for growth in growths) > 1.0
    assert float(re.findall(r"step 30: loss ([\d.]+)", quiet_output)[0]) < 2.6  # from log 26 = 3.3


def test_ddp_example_is_the_same_on_one_and_two_ranks():
    whole = python(EXAMPLES / "train_ddp.py")
    first, last = map(float, re.search(r"loss ([\d.]+) -> ([\d.]+)", whole).groups())  # pyright: ignore
    assert last < 0.9 * first
    output = torchrun(2, EXAMPLES / "train_ddp.py")
    assert "300 steps on 2 rank(s)" in output
    # Weights after 300 float32 steps of a chaotic run differ from one instruction set to another; the loss does not.
    again = float(re.search(r"loss [\d.]+ -> ([\d.]+)", output).group(1))  # pyright: ignore
    assert abs(again - last) < 0.1 * first
