"""State dicts are plain, complete and exact, and a damaged one changes nothing."""

import copy

import pytest
import torch
from cases import GRANULARITIES, OPTIONS, assert_same_state, coo, noisy_gradients, parameters, through_a_file, train

from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad.projections import Box

pytestmark = pytest.mark.filterwarnings("ignore::gradagrad.LargeFirstStepWarning")


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("name", OPTIONS)
def test_a_resumed_run_continues_bit_for_bit(granularity, name):
    params = parameters(torch.float32)
    optimizer = GradaGrad(params, lr=0.1, granularity=granularity, **OPTIONS[name])
    train(optimizer, params, 7)
    others = copy.deepcopy(params)
    resumed = GradaGrad(others, lr=0.7, projection=OPTIONS[name].get("projection"))
    resumed.load_state_dict(through_a_file(optimizer.state_dict()))
    train(optimizer, params, 7, start=7)
    train(resumed, others, 7, start=7)
    assert_same_state(optimizer, resumed)


def test_a_sparse_run_resumes_bit_for_bit():
    def sparse(p, k):
        p.grad = coo([[k % 4, (k + 1) % 4]], torch.ones(2, 3), p.shape)

    p = torch.nn.Parameter(torch.randn(5, 3))
    optimizer = GradaGrad([p], lr=0.1)
    for k in range(6):
        sparse(p, k)
        optimizer.step()
    q = copy.deepcopy(p)
    resumed = GradaGrad([q], lr=0.1)
    resumed.load_state_dict(through_a_file(optimizer.state_dict()))
    assert "row_clocks" not in resumed.state[q]  # saving brings all rows up to date
    for k in range(6, 12):
        for optimizer_, parameter in ((optimizer, p), (resumed, q)):
            sparse(parameter, k)
            optimizer_.step()
    assert_same_state(optimizer, resumed)


def test_the_state_holds_only_tensors_under_parameters():
    params = parameters()
    optimizer = GradaGrad(params, granularity="group", projection=Box(-1.0, 1.0))
    train(optimizer, params, 2)
    state_dict = optimizer.state_dict()
    assert set(state_dict) == {"state", "param_groups"}
    assert set(state_dict["state"]) == set(range(len(params)))
    for state in state_dict["state"].values():
        assert all(isinstance(value, torch.Tensor) for value in state.values())
    plain = (int, float, str, bool, type(None), list, torch.dtype)
    assert all(isinstance(v, plain) for group in state_dict["param_groups"] for v in group.values())


def test_a_loaded_state_shares_no_memory_with_the_dictionary():
    params = parameters()
    optimizer = GradaGrad(params, lr=0.1)
    train(optimizer, params, 2)
    state_dict = optimizer.state_dict()
    others = copy.deepcopy(params)
    resumed = GradaGrad(others, lr=0.1)
    resumed.load_state_dict(state_dict)
    kept = state_dict["state"][0]["growth"].clone()
    train(resumed, others, 3)
    assert torch.equal(state_dict["state"][0]["growth"], kept)


def test_older_dictionaries_take_this_optimizers_defaults():
    params = parameters()
    optimizer = GradaGrad(params, lr=0.1)
    train(optimizer, params, 2)
    old = optimizer.state_dict()
    for group in old["param_groups"]:
        for name in ("foreach", "maximize", "capturable", "differentiable", "lazy", "growth_limit", "projection"):
            del group[name]
    old["state"][0]["step"] = 2.0  # a plain number, as torch once stored it
    others = copy.deepcopy(params)
    resumed = GradaGrad(others, lr=0.5, lazy=True)
    resumed.load_state_dict(old)
    assert resumed.param_groups[0]["lazy"] is True
    assert resumed.param_groups[0]["lr"] == 0.1
    assert isinstance(resumed.state[others[0]]["step"], torch.Tensor)
    noisy_gradients(others, 3)
    resumed.step()


DAMAGE = [
    (lambda d: d.pop("state"), 'dictionary "state"'),
    (lambda d: d.update(param_groups=3), 'list "param_groups"'),
    (lambda d: d["state"][0].pop("growth"), r'parameter 0 of group 0 has no "growth" \(found'),
    (lambda d: d["state"][0].update(momentum="?"), '"momentum" of parameter 0 of group 0 is a str, not a tensor'),
    (lambda d: d["state"][0].update(momentum=torch.ones(2)), r"must have shape \(4, 3\).*got \(2,\)"),
    (lambda d: d["state"][1].update(accumulator=torch.ones(4, 4)), r'"accumulator" of parameter 1 .* shape \(5,\)'),
    (lambda d: d["state"].update({0: [1, 2]}), "damaged: the state of parameter 0 of group 0 is a list"),
    (lambda d: d["state"].update({0: None}), "damaged: the state of parameter 0 of group 0 is a None"),
    (lambda d: d["state"].update({0: 0}), "damaged: the state of parameter 0 of group 0 is a int"),
    (lambda d: d["param_groups"][0].update(momentum=1.5), r"in param group 0, momentum must be in \[0, 1\), got 1\.5"),
    (lambda d: d["param_groups"][0].update(granularity="row"), r'"growth" of .*granularity="row"'),
    (lambda d: d["param_groups"][0].update(granularity="?"), "granularity must be one of"),
    (lambda d: d["param_groups"].append(copy.deepcopy(d["param_groups"][0])), "different number of parameter groups"),
    (lambda d: d["param_groups"][0]["params"].pop(), "doesn't match the size of optimizer's group"),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGE, ids=[m for _, m in DAMAGE])
def test_a_damaged_dictionary_is_refused_whole(damage, message):
    params = parameters()
    optimizer = GradaGrad(params, lr=0.1)
    train(optimizer, params, 2)
    state_dict = copy.deepcopy(optimizer.state_dict())
    damage(state_dict)
    others = copy.deepcopy(params)
    victim = GradaGrad(others, lr=0.7, momentum=0.5)
    train(victim, others, 1)
    before = copy.deepcopy(victim)
    with pytest.raises(ValueError, match=message):
        victim.load_state_dict(state_dict)
    assert_same_state(victim, before)
    assert victim.param_groups[0]["lr"] == 0.7
    assert not victim._optimizer_load_state_dict_pre_hooks
    assert not victim._optimizer_load_state_dict_post_hooks


def test_an_adagrad_dictionary_names_the_remedy():
    params = parameters()
    adagrad = torch.optim.Adagrad(params)
    noisy_gradients(params, 0)
    adagrad.step()
    with pytest.raises(ValueError, match=r"gradagrad\.from_adagrad"):
        GradaGrad(params).load_state_dict(adagrad.state_dict())


def test_users_hooks_see_the_restored_state_and_may_change_the_dictionary():
    params = parameters()
    optimizer = GradaGrad(params, lr=0.1)
    train(optimizer, params, 2)
    seen = []
    resumed = GradaGrad(copy.deepcopy(params), lr=0.1)

    def halve(_, state_dict):
        state_dict = copy.deepcopy(state_dict)
        state_dict["param_groups"][0]["lr"] = 0.05
        return state_dict

    resumed.register_load_state_dict_pre_hook(halve)
    resumed.register_load_state_dict_post_hook(lambda o: seen.append(next(iter(o.state.values()))["growth"].dtype))
    resumed.load_state_dict(optimizer.state_dict())
    assert resumed.param_groups[0]["lr"] == 0.05
    assert seen == [torch.float64]


def test_projections_stay_the_loading_optimizers():
    params = parameters()
    mine = Box(-2.0, 2.0)
    optimizer = GradaGrad(params, lr=0.1, projection=Box(-1.0, 1.0))
    train(optimizer, params, 1)
    resumed = GradaGrad(copy.deepcopy(params), lr=0.1, projection=mine)
    resumed.load_state_dict(optimizer.state_dict())
    assert resumed.param_groups[0]["projection"] is mine


def test_shared_memory():
    params = parameters()
    optimizer = GradaGrad(params, lr=0.1)
    optimizer.share_memory()
    assert all(value.is_shared() for p in params if p.numel() for value in optimizer.state[p].values())
    train(optimizer, params, 2)


@pytest.mark.parametrize(
    "damage",
    [
        lambda a: torch.full_like(a, 1e200, dtype=torch.float64),
        lambda a: a.to(torch.float8_e4m3fn),
        lambda a: torch.nested.nested_tensor([a]),
        lambda a: torch.quantize_per_tensor(a, 0.1, 0, torch.qint8),
        lambda a: torch.nn.UninitializedParameter(),
    ],
    ids=["1e200", "float8", "nested", "quantized", "uninitialised"],
)
@pytest.mark.filterwarnings("ignore")
def test_tensors_that_cannot_be_state_are_refused(damage):
    params = [torch.nn.Parameter(torch.ones(3))]
    optimizer = GradaGrad(params)
    train(optimizer, params, 2)
    saved = optimizer.state_dict()
    saved["state"][0] = {**saved["state"][0], "momentum": damage(saved["state"][0]["momentum"])}
    with pytest.raises(ValueError, match='the state dict is damaged: "momentum" of parameter 0'):
        optimizer.load_state_dict(saved)


def test_saved_tensors_that_require_grad_load_without_their_graph():
    params = [torch.nn.Parameter(torch.ones(3))]
    optimizer = GradaGrad(params)
    train(optimizer, params, 2)
    saved = optimizer.state_dict()
    graph = saved["state"][0]["momentum"].clone().requires_grad_() * 1.0
    saved["state"][0] = {**saved["state"][0], "momentum": graph}
    optimizer.load_state_dict(saved)
    assert not optimizer.state[params[0]]["momentum"].requires_grad


LAYOUT = {GradaGrad: ("momentum", "growth", "accumulator"), AutoGradaGrad: ("accumulator", "offset", "displacement")}


@pytest.mark.parametrize("make", LAYOUT)
def test_the_memory_layout_of_the_state_follows_the_parameter(make):
    p = torch.nn.Parameter(torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last))
    optimizer = make([p], lr=0.1)
    p.grad = torch.randn_like(p)
    optimizer.step()
    saved = copy.deepcopy(optimizer.state_dict())
    for key in LAYOUT[make]:
        assert optimizer.state[p][key].stride() == p.stride()
        saved["state"][0][key] = saved["state"][0][key].contiguous()
    resumed = make([copy.deepcopy(p)], lr=0.1)
    resumed.load_state_dict(saved)
    (state,) = resumed.state.values()
    assert all(state[key].stride() == p.stride() for key in LAYOUT[make])
