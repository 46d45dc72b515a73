"""Held-out and development problems: a seed decides everything."""

import pytest
import torch

from gradagrad_lab.problems.held_out import HELD_OUT


@pytest.mark.parametrize("problem", HELD_OUT, ids=lambda problem: problem.name)
def test_a_seed_decides_everything(problem):
    def gradient(seed):
        task = problem.make(seed)
        task.loss_on(0).backward()
        return torch.cat([parameter.grad.to_dense().flatten() for parameter in task.parameters])

    before = torch.random.get_rng_state()
    first, again = (problem.make(3).full_train_loss() for _ in range(2))
    assert 0.0 < first == again
    assert torch.equal(gradient(3), gradient(3))
    assert not torch.equal(gradient(3), gradient(4))
    assert torch.equal(before, torch.random.get_rng_state()), "the global generator is left alone"
