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


def made(make, params, **options):
    """AutoGradaGrad in two groups, which share numbers."""
    return make([{"params": params[:3]}, {"params": params[3:]}] if make is AutoGradaGrad else params, **options)


both = pytest.mark.parametrize("make", [GradaGrad, AutoGradaGrad])


@both
def test_the_state_holds_only_tensors_under_parameters(make):
    params = parameters()
    options = {} if make is AutoGradaGrad else {"granularity": "group", "projection": Box(-1.0, 1.0)}
    optimizer = made(make, params, **options)
    train(optimizer, params, 2)
    assert set(optimizer.state) == set(params)
    keys = {field.key for field in make.rule.fields(optimizer._settings(optimizer.param_groups[0]))}
    state_dict = optimizer.state_dict()
    assert set(state_dict) == {"state", "param_groups"}
    assert set(state_dict["state"]) == set(range(len(params)))
    for state in state_dict["state"].values():
        assert set(state) == {"step", *keys}
        assert all(isinstance(value, torch.Tensor) for value in state.values())
    plain = (int, float, str, bool, type(None), list, torch.dtype)
    assert all(isinstance(v, plain) for group in state_dict["param_groups"] for v in group.values())


@both
def test_a_loaded_state_shares_no_memory_with_the_dictionary(make):
    params = parameters()
    optimizer = made(make, params, lr=0.1)
    train(optimizer, params, 2)
    state_dict = optimizer.state_dict()
    kept = copy.deepcopy(state_dict)
    others = copy.deepcopy(params)
    resumed = made(make, others, lr=0.1)
    resumed.load_state_dict(state_dict)
    train(resumed, others, 3)
    for number, state in kept["state"].items():
        for key, value in state.items():
            assert torch.equal(state_dict["state"][number][key], value), key


@pytest.mark.parametrize(("make", "flag"), [(GradaGrad, "lazy"), (AutoGradaGrad, "maximize")])
def test_older_dictionaries_take_this_optimizers_defaults(make, flag):
    params = parameters()
    optimizer = made(make, params, lr=0.1)
    train(optimizer, params, 2)
    old = copy.deepcopy(optimizer.state_dict())
    later = {"foreach", "maximize", "capturable", "differentiable", "fused", "state_dtype", "lazy", "growth_limit"}
    for group in old["param_groups"]:
        for name in later | {"projection"}:
            group.pop(name, None)
    old["state"][0]["step"] = 2.0  # a plain number, as torch once stored it
    others = copy.deepcopy(params)
    resumed = made(make, others, lr=0.5, **{flag: True})
    resumed.load_state_dict(old)
    assert resumed.param_groups[0][flag] is True
    assert resumed.param_groups[0]["lr"] == 0.1
    train(resumed, others, 1, start=3)
    assert torch.equal(resumed.state[others[0]]["step"], torch.tensor(3))


DAMAGE = [
    (lambda d: d.pop("state"), 'dictionary "state"'),
    (lambda d: d.update(param_groups=3), 'list "param_groups"'),
    (lambda d: d["param_groups"].append(copy.deepcopy(d["param_groups"][0])), "different number of parameter groups"),
    (lambda d: d["param_groups"][0]["params"].pop(), "doesn't match the size of optimizer's group"),
]
OWN_DAMAGE = {
    GradaGrad: [
        (lambda d: d["state"][0].pop("growth"), r'parameter 0 of group 0 has no "growth" \(found'),
        (lambda d: d["state"][0].update(momentum="?"), '"momentum" of parameter 0 of group 0 is a str, not a tensor'),
        (lambda d: d["state"][0].update(momentum=torch.ones(2)), r"must have shape \(4, 3\).*got \(2,\)"),
        (lambda d: d["state"][1].update(accumulator=torch.ones(4, 4)), r'"accumulator" of parameter 1 .* shape \(5,\)'),
        (lambda d: d["state"].update({0: [1, 2]}), "damaged: the state of parameter 0 of group 0 is a list"),
        (lambda d: d["state"].update({0: None}), "damaged: the state of parameter 0 of group 0 is a None"),
        (lambda d: d["state"].update({0: 0}), "damaged: the state of parameter 0 of group 0 is a int"),
        (
            lambda d: d["param_groups"][0].update(momentum=1.5),
            r"in param group 0, momentum must be in \[0, 1\), got 1\.5",
        ),
        (lambda d: d["param_groups"][0].update(granularity="row"), r'"growth" of .*granularity="row"'),
        (lambda d: d["param_groups"][0].update(granularity="?"), "granularity must be one of"),
    ],
    AutoGradaGrad: [
        (lambda d: d["state"][0].pop("gamma"), r'parameter 0 of group 0 has no "gamma" \(found'),
        (lambda d: d["state"][1].pop("displacement"), r'parameter 1 of group 0 has no "displacement"'),
        (lambda d: d["state"][0].pop("clock"), r'has no "clock"'),
        (lambda d: d["state"][1].update(clock=torch.tensor(7.0)), '"clock" is shared by parameters'),
        (lambda d: d["state"][0].update(accumulator="?"), '"accumulator" of parameter 0 of group 0 is a str'),
        (lambda d: d["state"][0].update(gamma=3.0), '"gamma" of parameter 0 of group 0 is a float, not a tensor'),
        (lambda d: d["state"][0].update(gamma=torch.ones(4)), r'"gamma" .*must have shape \(\).*got \(4,\)'),
        (lambda d: d["state"][0].update(displacement=torch.ones(2)), r"must have shape \(4, 3\).*got \(2,\)"),
        (lambda d: d["state"].update({0: [1, 2]}), "state of parameter 0 of group 0 is a list"),
        (lambda d: d["param_groups"][0].update(gamma0=-1.0), "in param group 0, gamma0 must be"),
        (lambda d: d["param_groups"][1].update(gamma0=0.5), "in param group 1, gamma0 must be 0.0001 as in the other"),
    ],
}
CASES = [(make, *case) for make, own in OWN_DAMAGE.items() for case in DAMAGE + own]


@pytest.mark.parametrize(("make", "damage", "message"), CASES, ids=[f"{make.__name__}, {m}" for make, _, m in CASES])
def test_a_damaged_dictionary_is_refused_whole(make, damage, message):
    params = parameters()
    optimizer = made(make, params)
    train(optimizer, params, 2)
    state_dict = copy.deepcopy(optimizer.state_dict())
    damage(state_dict)
    others = copy.deepcopy(params)
    victim = made(make, others, lr=0.7, momentum=0.5)
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


@pytest.mark.parametrize(("key", "version"), [("averaging", "0.2"), ("effective_lr", "0.3")])
def test_a_dictionary_of_an_earlier_autogradagrad_names_its_version(key, version):
    optimizer = AutoGradaGrad(parameters())
    saved = optimizer.state_dict()
    saved["param_groups"][0][key] = None
    with pytest.raises(ValueError, match=rf"saved by AutoGradaGrad of gradagrad {version}"):
        optimizer.load_state_dict(saved)


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
