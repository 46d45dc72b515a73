"""The held-out comparison trains its runs as the suite does."""

import dataclasses

import pytest

from benchmarks.stacked import Stack, ours, train
from gradagrad import AutoGradaGrad
from gradagrad_lab.figures.suite.catalogue import problem_of
from gradagrad_lab.runs.single import Single


@pytest.mark.parametrize("name", ["quadratic", "mlp"])
def test_a_stacked_lane_of_ours_is_the_optimizer_itself(name):
    """The MLP has several tensors, each with its own γ."""
    problem = dataclasses.replace(problem_of(name).problem, steps=60)
    _, lane = train(Stack(problem, range(2)), [ours([{"gamma0": 1e-2}, {"guard": False}])])
    for seed in range(2):
        alone = Single(problem.make(seed), lambda p: AutoGradaGrad(p, guard=False), seed, problem.steps)
        for number in range(alone.rounds):
            alone.advance(number)
        (found,) = alone.curves()
        shown = {"loss": lane.last, "averaged loss": lane.averaged, "gamma": lane.gamma}
        for measure, values in shown.items():
            assert float(values[seed]) == pytest.approx(found[measure][0], rel=1e-3)
        assert found["loss"] != found["averaged loss"]
