"""Tables that TorchRec has sharded over two ranks: decisions agree with one process, or are refused with a remedy."""

import pytest
import torch

pytest.importorskip("torchrec", reason="TorchRec is not installed; make torchrec runs these tests")
from torch import multiprocessing

from torchrec_half import model

REFUSED = {("column_wise", "row"), ("column_wise", "tensor"), ("row_wise", "tensor")}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    path = tmp_path_factory.mktemp("ranks") / "results.pt"
    multiprocessing.spawn(model.cells, (model.free_port(), path), model.WORLD)
    return torch.load(path)


@pytest.mark.parametrize("name", model.OPTIMIZERS)
@pytest.mark.parametrize("kind", model.KINDS)
def test_two_ranks_equal_one_process(results, kind, name):
    found = results[kind, name]
    if (kind, name) in REFUSED:
        assert 'use granularity="element"' in found
        assert kind in found
    else:
        assert found < 2e-6, found


@pytest.mark.parametrize("kind", ["table_wise", "row_wise"])
def test_steps_inside_the_lookup_equal_ordinary_ones_and_make_no_gradient(results, kind):
    difference, has_gradients, message = results["in lookup", kind]
    assert difference < 2e-6
    assert not has_gradients
    assert "Call optimizer.step() after every backward()" in message


def test_tables_that_do_not_know_their_sharding_are_refused(results):
    assert "Call gradagrad.integrations.torchrec.prepare(model)" in results["unprepared"]
