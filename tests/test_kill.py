"""Runs that are killed and started again end where an undisturbed one ends. Other instruction sets agree with ours."""

import multiprocessing
import os
import platform
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from citizen.harness import assert_identical

from gradagrad import AutoGradaGrad, GradaGrad

ROOT = Path(__file__).parents[1]
STEPS = 40


def start(*words: str | Path, **environment: str) -> subprocess.Popen[str]:
    """This Python in a session of its own, so that a kill hits its workers too."""
    paths = os.pathsep.join(map(str, (ROOT / "src", ROOT)))
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": paths} | environment
    line = [sys.executable, *map(str, words)]
    pipe, joined = subprocess.PIPE, subprocess.STDOUT
    return subprocess.Popen(line, stdout=pipe, stderr=joined, text=True, env=environment, start_new_session=True)


def finish(process: subprocess.Popen[str], code: int = 0) -> str:
    """Its output, once it has ended with this code."""
    with process:
        try:
            said, _ = process.communicate(timeout=600)
        finally:
            process.kill()
    assert process.returncode == code, said
    assert "Traceback" not in said
    return said


def stop(process: subprocess.Popen[str], number: signal.Signals) -> None:
    os.killpg(process.pid, number)
    finish(process, 130 if number == signal.SIGTERM else -number)


def loop(folder: Path) -> None:
    """Trains dense and sparse parameters with averages and bf16 state, and saves a checkpoint after every step."""
    torch.manual_seed(0)
    table, net = torch.nn.Embedding(50, 8, sparse=True), torch.nn.Linear(8, 3)
    automatic = AutoGradaGrad([*table.parameters(), *net.parameters()], state_dtype=torch.bfloat16)
    other = torch.nn.ParameterList([torch.ones(7)])
    shared = GradaGrad(other.parameters(), lr=0.1, momentum=0.9, granularity="group")
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(automatic, STEPS)
    parts = (table, net, other, automatic, shared, schedule)
    begun, checkpoint = 0, folder / "checkpoint.pt"
    if checkpoint.exists():
        begun, states = torch.load(checkpoint, weights_only=True)
        for part, state in zip(parts, states, strict=True):
            part.load_state_dict(state)
    for step in range(begun, STEPS):
        dice = torch.Generator().manual_seed(step)
        rows = torch.randint(50, (16,), generator=dice)
        for optimizer in (automatic, shared):
            optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(table(rows)), rows % 3).backward()
        other[0].grad = other[0].detach() - torch.randn(7, generator=dice)
        for stepped in (automatic, shared, schedule):
            stepped.step()
        torch.save([step + 1, [part.state_dict() for part in parts]], folder / "new.pt")
        os.replace(folder / "new.pt", checkpoint)
        (folder / f"step_{step}").touch()


def test_a_loop_with_checkpoints_ends_where_an_undisturbed_one_ends(tmp_path):
    undisturbed, killed, dice = tmp_path / "undisturbed", tmp_path / "killed", random.Random(0)
    undisturbed.mkdir()
    killed.mkdir()
    loop(undisturbed)
    server = multiprocessing.get_context("forkserver")  # which imports torch once for all
    server.set_forkserver_preload(["gradagrad.gradagrad", "gradagrad.auto", "torch"])
    for kills in range(1, 5):
        process = server.Process(target=loop, args=(killed,))
        process.start()
        while kills < 4 and not (killed / f"step_{8 * kills}").exists():
            assert process.is_alive()
            time.sleep(0.001)
        if kills < 4:
            time.sleep(dice.uniform(0.0, 0.02))  # in a step or in a save
            process.kill()
            assert not (killed / f"step_{STEPS - 1}").exists()
        process.join()
        assert process.exitcode == (-signal.SIGKILL if kills < 4 else 0)
    found, expected = (torch.load(folder / "checkpoint.pt", weights_only=True) for folder in (killed, undisturbed))
    assert_identical(found, expected)


@pytest.mark.timeout(900)
def test_a_command_of_the_lab_is_resumed(tmp_path):
    """By two commands at once, which share the folder. Both end with the table of an undisturbed one."""
    words = ["-m", "gradagrad_lab", "compare", "iris", "adam", "gradagrad", "--seeds", "2", "--epochs", "40"]
    words += ["--workers", "1", "--out"]
    expected, out = finish(start(*words, tmp_path / "undisturbed")), tmp_path / "killed"
    for number, files in ((signal.SIGTERM, 1), (signal.SIGKILL, 2)):  # the first file says whose folder it is
        process = start(*words, out)
        while len(list(out.rglob("*.json"))) < files:
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.001)
        stop(process, number)
    for said in map(finish, [start(*words, out) for _ in range(2)]):
        assert said.replace("killed", "undisturbed") == expected
    assert not list(out.rglob("*.tmp"))


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="other processors have other names for them")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("capability", ["default", "avx2"])
def test_the_kernel_agrees_with_torch_on_other_instruction_sets(capability):
    """Torch runs the loops of older processors. The kernel chooses by the processor itself."""
    files = [ROOT / "tests" / name for name in ("engine/test_kernel_rules.py", "test_adagrad.py")]
    process = start("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *files, ATEN_CPU_CAPABILITY=capability)
    assert " passed" in finish(process)
