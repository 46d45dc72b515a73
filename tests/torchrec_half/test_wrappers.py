"""Our optimizers inside TorchRec's wrappers: checkpoints load into fresh ones, and the learning rates can be read."""

# pyright: reportMissingImports=false

import pytest
import torch

pytest.importorskip("torchrec", reason="TorchRec is not installed; make torchrec runs these tests")
from torchrec.optim.clipping import GradientClipping, GradientClippingOptimizer
from torchrec.optim.fused import EmptyFusedOptimizer
from torchrec.optim.keyed import CombinedOptimizer, KeyedOptimizerWrapper
from torchrec.optim.warmup import WarmupOptimizer, WarmupPolicy, WarmupStage

import gradagrad
from torchrec_half import model


def keyed(name, net, fresh=False):
    """With the keys of the state already there, if it is fresh and a checkpoint is to be loaded."""
    optimizer = KeyedOptimizerWrapper(dict(net.named_parameters()), model.maker(name))
    if fresh:
        optimizer.init_state()
    return optimizer


def wrapped(name, net, fresh=False):
    combined = CombinedOptimizer([("fused", EmptyFusedOptimizer()), ("dense", keyed(name, net, fresh))])
    clipping = GradientClippingOptimizer(combined, GradientClipping.NORM, 1.0)
    return WarmupOptimizer(clipping, [WarmupStage(WarmupPolicy.NONE, max_iters=1, value=1.0)], lr=0.05)


@pytest.mark.parametrize("wrap", [keyed, wrapped])
@pytest.mark.parametrize("name", model.OPTIMIZERS)
def test_a_checkpoint_loads_into_a_fresh_wrapper(wrap, name):
    net, other = model.Net(), model.Net()
    first, second = wrap(name, net), wrap(name, other, fresh=True)
    model.train(net, first, steps=range(4))
    other.load_state_dict(net.state_dict())
    second.load_state_dict(first.state_dict())
    model.train(net, first, steps=range(4, 8))
    model.train(other, second, steps=range(4, 8))
    for a, b in zip(net.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)
    rates = gradagrad.learning_rates(first)
    assert rates["gradagrad/group0/gamma_median"] > 0
    assert rates == gradagrad.learning_rates(second)
    assert first.param_groups[0].get("d", 1) == second.param_groups[0].get("d", 1) > 0
