"""Tables that TorchRec has sharded over two ranks equal those of one process, and their state can be resharded."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torchrec", reason="TorchRec is not installed; make torchrec runs these tests")
from torchrec_half import model

PLANS = [
    dict.fromkeys(model.OPTIMIZERS, "table_wise"),
    dict.fromkeys(model.OPTIMIZERS, "row_wise"),
    dict.fromkeys(model.OPTIMIZERS, "column_wise") | {"lazy row": "row_wise"},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="module")
def found(folder):
    return model.on_ranks(2, model.everything, folder, PLANS[0])


@pytest.mark.parametrize("name", model.OPTIMIZERS)
@pytest.mark.parametrize("kind", model.ways())
def test_two_ranks_equal_one_process(found, kind, name):
    cell = found[0][kind, name]
    if (kind, name) == ("column_wise", "lazy row"):
        assert "needs whole rows on one rank, got columns on several ranks" in cell
        return
    start, end, average = cell
    assert model.largest_difference(start, end) > 1e-3
    assert model.largest_difference(trained(start, name, model.STEPS), end) < 2e-6
    if average:
        half = trained(start, name, model.STEPS // 2, averages=True)
        assert model.largest_difference(half, average) < 2e-6 < model.largest_difference(half, end)


def trained(start, name, steps, *, averages=False):
    one = model.Net()
    one.load_state_dict(start)
    optimizer = model.maker(name)(one.parameters())
    model.train(one, optimizer, range(steps))
    if averages:
        optimizer.eval()
    return one.state_dict()


def test_checkpoints_go_from_two_ranks_to_one_and_back(found, folder):
    """In TorchRec's state dicts through torch.distributed.checkpoint, into another plan each time."""
    stages = [
        found[2],
        model.on_ranks(1, model.stage, folder, range(6, 12), PLANS[1]),
        model.on_ranks(2, model.stage, folder, range(12, 18), PLANS[2]),
    ]
    for name in model.OPTIMIZERS:
        for i, weights in enumerate(stages):
            expected = trained(stages[0]["start"], name, 6 * (i + 1))
            assert model.largest_difference(weights[name], expected) < 2e-6, (name, i)


def test_steps_inside_the_lookup_equal_ordinary_ones_and_make_no_gradient(found):
    for name, (farthest, compared, has_gradients) in found[1].items():
        assert farthest < 2e-6, name
        assert compared > 10, name
        assert not has_gradients, name


def test_what_cannot_work_is_refused(found):
    messages = found[3]
    for name, words in {
        "unknown": "Construct the optimizer with gradagrad.integrations.torchrec.optimizer_for",
        "fused": "FBGEMM steps it in backward",
        "not ours": "make must return a GradaGrad or an AutoGradaGrad, got SGD",
        "not by row": 'needs GradaGrad with granularity="row" and lazy=True',
        "auto": 'needs GradaGrad with granularity="row" and lazy=True',
        "in backward": "DistributedDataParallel adds gradients",
        "closure": "call backward() first",
        "accumulated": "Call optimizer.step() after every backward()",
    }.items():
        assert words in messages[name], name
    assert messages["left to FBGEMM"] == ["over.weight", "over.bias"]


def test_the_example_prints_a_line_for_each_optimizer():
    example = Path(__file__).parents[2] / "examples" / "torchrec_dlrm.py"
    start = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    ran = subprocess.run([*start, example, "--steps", "8", "--size", "small"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    for name in ("RowWiseAdagrad", "GradaGrad by rows", "AutoGradaGrad"):
        line = next(line for line in ran.stdout.splitlines() if line.startswith(name))
        loss, milliseconds = (float(number) for number in line.removeprefix(name).split())
        assert 0.4 < loss < 1.0
        assert milliseconds > 0
