"""State dicts are plain, complete and exact, and a damaged one changes nothing."""

import copy
import math
import pickle

import pytest
import torch
from cases import (
    DRIVERS,
    GRANULARITIES,
    OPTIONS,
    assert_same,
    coo,
    every_parameter,
    gammas,
    make,
    parameters,
    shared,
    through_a_file,
    train,
)  # fmt: skip

from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad.projections import Box

pytestmark = pytest.mark.filterwarnings("ignore::gradagrad.LargeFirstStepWarning")

AUTO = {"plain": {}, "bfloat16": {"state_dtype": torch.bfloat16}, "no guard": {"weight_decay": 0.1, "guard": False}}
RESUMED = [(kind, name, OPTIONS[name]) for kind in GRANULARITIES for name in OPTIONS]
RESUMED += [("auto", f"{name} {way}", AUTO[name] | DRIVERS[way]) for name in AUTO for way in DRIVERS]
RESUMED += [("element", f"bfloat16 {way}", {"momentum": 0.9, **AUTO["bfloat16"], **DRIVERS[way]}) for way in DRIVERS]


@pytest.mark.parametrize(("kind", "name", "options"), RESUMED, ids=[f"{kind}-{name}" for kind, name, _ in RESUMED])
def test_a_resumed_run_takes_all_settings_and_continues_bit_for_bit(kind, name, options):
    """tests/citizen resumes in other precisions and by every implementation."""
    optimizer = make(kind, parameters(torch.float32), **options)
    train(optimizer, 7)
    own = {"gamma0": 1.0} if kind == "auto" else {"granularity": "element", "projection": options.get("projection")}
    resumed = make(kind, copy.deepcopy(every_parameter(optimizer)), **{"lr": 0.7, **own})
    resumed.load_state_dict(through_a_file(optimizer.state_dict()))
    assert_same(optimizer, resumed)
    train(optimizer, 7, start=7)
    train(resumed, 7, start=7)
    assert_same(optimizer, resumed)
    assert kind != "auto" or max(gammas(optimizer)) > 2e-5


@pytest.mark.parametrize("state_dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", ["element", "auto"])
def test_a_sparse_run_resumes_bit_for_bit(kind, state_dtype):
    """Distributed checkpoints load nothing that a fresh optimizer has not; row clocks must therefore not be needed."""

    def step(optimizer, k):
        (p,) = every_parameter(optimizer)
        p.grad = coo([[k % 4, (k * k) % 7]], torch.ones(2, 3), p.shape)
        optimizer.step()

    options = {"gamma0": 0.01} if kind == "auto" else {}
    optimizer = make(kind, [torch.nn.Parameter(torch.randn(8, 3))], state_dtype=state_dtype, **options)
    for k in range(9):
        step(optimizer, k)
    saved = through_a_file(optimizer.state_dict())  # Idle rows catch up, so the parameters are copied after it.
    assert "row_clocks" not in saved["state"][0]
    resumed = make(kind, copy.deepcopy(every_parameter(optimizer)), state_dtype=state_dtype)
    resumed.load_state_dict(saved)
    twin = copy.deepcopy(optimizer)
    for k in range(9, 20):
        for each in (optimizer, resumed, twin):
            step(each, k)
        if k == 14:
            twin = copy.deepcopy(twin)  # in the middle, clocks and all
    for each in (resumed, twin):
        assert_same(optimizer, each)
    assert kind != "auto" or max(gammas(optimizer)) > 0.011


def made(cls, params, **options):
    """AutoGradaGrad in two groups, which share numbers."""
    return cls([{"params": params[:3]}, {"params": params[3:]}] if cls is AutoGradaGrad else params, **options)


both = pytest.mark.parametrize("cls", [GradaGrad, AutoGradaGrad])


@both
def test_the_state_holds_only_tensors_under_parameters(cls):
    params = parameters()
    options = {} if cls is AutoGradaGrad else {"granularity": "group", "projection": Box(-1.0, 1.0)}
    optimizer = made(cls, params, **options)
    train(optimizer, 2)
    assert set(optimizer.state) == set(params)
    keys = {field.key for field in cls.rule.fields(optimizer._settings(optimizer.param_groups[0]))}
    state_dict = optimizer.state_dict()
    assert set(state_dict) == {"state", "param_groups"}
    assert set(state_dict["state"]) == set(range(len(params)))
    for state in state_dict["state"].values():
        assert set(state) == {"step", *keys}
        assert all(isinstance(value, torch.Tensor) for value in state.values())
    plain = (int, float, str, bool, type(None), list, torch.dtype)
    assert all(isinstance(v, plain) for group in state_dict["param_groups"] for v in group.values())


@pytest.mark.parametrize(("cls", "flag"), [(GradaGrad, "lazy"), (AutoGradaGrad, "maximize")])
def test_older_dictionaries_take_this_optimizers_defaults(cls, flag):
    params = parameters()
    optimizer = made(cls, params, lr=0.1)
    train(optimizer, 2)
    old = copy.deepcopy(optimizer.state_dict())
    later = {"foreach", "maximize", "capturable", "differentiable", "fused", "state_dtype", "lazy", "growth_limit"}
    for group in old["param_groups"]:
        for name in later | {"projection"}:
            group.pop(name, None)
    old["state"][0]["step"] = 2.0  # a plain number, as torch once stored it
    others = copy.deepcopy(params)
    resumed = made(cls, others, lr=0.5, **{flag: True})
    resumed.load_state_dict(old)
    assert resumed.param_groups[0][flag] is True
    assert resumed.param_groups[0]["lr"] == 0.1
    train(resumed, 1, start=3)
    assert torch.equal(resumed.state[others[0]]["step"], torch.tensor(3))


GONE, META, SPARSE = object(), torch.empty((), device="meta"), torch.zeros(4, 3).to_sparse()


def state(i, key, value, message):
    """Damage to one entry, or to all, of a parameter's state; the message may be the key alone."""

    def damage(d):
        place, name = (d["state"], i) if key is None else (d["state"][i], key)
        found = value(d["state"][i][key]) if callable(value) else value
        place.pop(name) if value is GONE else place.update({name: found})

    return damage, message


def group(i, message, **changes):
    return lambda d: d["param_groups"][i].update(changes), message


DAMAGE = [
    (lambda d: d.pop("state"), 'dictionary "state"'),
    (lambda d: d.update(param_groups=3), 'list "param_groups"'),
    (lambda d: d["param_groups"].append(copy.deepcopy(d["param_groups"][0])), "different number of parameter groups"),
    (lambda d: d["param_groups"][0]["params"].pop(), "doesn't match the size of optimizer's group"),
    *(
        state(0, None, value, f"damaged: the state of parameter 0 of group 0 is a {kind}")
        for value, kind in (([1, 2], "list"), (None, "None"), (0, "int"))
    ),
    *(
        state(0, "step", value, "step")
        for value in (None, "abc", {}, [1, 2], -1, 1.5, math.nan, math.inf, META, SPARSE, True, 10**400, 2**63, 1e300)
    ),
    state(0, "step", torch.tensor(3e38), "step"),
    state(0, "accumulator", "?", '"accumulator" of parameter 0 of group 0 is a str, not a tensor'),
    state(1, "accumulator", torch.ones(4, 4), r'"accumulator" of parameter 1 .* shape \(5,\).*got \(4, 4\)'),
    *(state(0, "accumulator", value, "accumulator") for value in (None, 3.0, META, SPARSE, torch.ones(4, 3).int())),
    *(state(0, "accumulator", torch.full((4, 3), value), "accumulator") for value in (-1.0, math.nan, math.inf)),
    *(state(0, "row_clocks", value, "row_clocks") for value in ("abc", torch.zeros(4, dtype=torch.int64))),
    *(
        state(0, "row_clocks", torch.tensor([value, 0.0, 0.0, 0.0], dtype=torch.float64), "row_clocks")
        for value in (-1.0, math.nan, 1e300)
    ),
    *(
        state(0, "accumulator", damage, 'the state dict is damaged: "accumulator" of parameter 0')
        for damage in (
            lambda a: torch.full_like(a, 1e200, dtype=torch.float64),
            lambda a: a.to(torch.float8_e4m3fn),
            lambda a: torch.nested.nested_tensor([a]),
            lambda a: torch.quantize_per_tensor(a.float(), 0.1, 0, torch.qint8),
            lambda a: torch.nn.UninitializedParameter(),
        )
    ),
]
OWN_DAMAGE = {
    GradaGrad: [
        state(0, "growth", GONE, r'parameter 0 of group 0 has no "growth" \(found'),
        state(0, "growth", torch.full((4, 3), 0.5), "growth"),
        state(0, "momentum", torch.ones(2), r"must have shape \(4, 3\).*got \(2,\)"),
        state(0, "momentum", torch.full((4, 3), math.nan), "momentum"),
        group(0, r"in param group 0, momentum must be in \[0, 1\), got 1\.5", momentum=1.5),
        group(0, r'"growth" of .*granularity="row"', granularity="row"),
        group(0, "granularity must be one of", granularity="?"),
    ],
    AutoGradaGrad: [
        state(0, "gamma", GONE, r'parameter 0 of group 0 has no "gamma" \(found'),
        state(1, "displacement", GONE, r'parameter 1 of group 0 has no "displacement"'),
        state(0, "clock", GONE, r'has no "clock"'),
        state(1, "clock", torch.tensor(7.0), '"clock" is shared by parameters'),
        state(0, "clock", torch.ones(2), "clock"),
        state(0, "gamma", 3.0, '"gamma" of parameter 0 of group 0 is a float, not a tensor'),
        state(0, "gamma", torch.ones(4), r'"gamma" .*must have shape \(\).*got \(4,\)'),
        *(state(0, "gamma", torch.tensor(value), "gamma") for value in (-1.0, math.nan)),
        state(0, "displacement", torch.ones(2), r"must have shape \(4, 3\).*got \(2,\)"),
        *(state(0, key, torch.full((4, 3), math.nan), key) for key in ("offset", "displacement")),
        group(0, "in param group 0, gamma0 must be", gamma0=-1.0),
        group(0, "in param group 0, mode must be 'train' or 'eval', got 'test'", mode="test"),
        group(1, "in param group 1, gamma0 must be 0.0001 as in the other", gamma0=0.5),
        *(group(0, "in param group 0, lr must be", initial_lr=wrong) for wrong in ("abc", math.nan, META)),
    ],
}


CASES = [(cls, *case) for cls, own in OWN_DAMAGE.items() for case in DAMAGE + own]


@pytest.mark.filterwarnings("ignore")  # of torch, about the strange tensors
@pytest.mark.parametrize(("cls", "damage", "message"), CASES, ids=[f"{cls.__name__}, {m}" for cls, _, m in CASES])
def test_a_damaged_dictionary_is_refused_whole(cls, damage, message):
    """And the optimizer can still step."""
    optimizer = made(cls, parameters(torch.float32))
    train(optimizer, 2)
    victim = made(cls, parameters(torch.float32), lr=0.7, momentum=0.5)
    train(victim, 1)
    state_dict = copy.deepcopy(optimizer.state_dict())
    damage(state_dict)
    before = copy.deepcopy(victim)
    with pytest.raises(ValueError, match=message):
        victim.load_state_dict(state_dict)
    assert_same(victim, before)
    assert victim.param_groups[0]["lr"] == 0.7
    assert not victim._optimizer_load_state_dict_pre_hooks
    assert not victim._optimizer_load_state_dict_post_hooks
    train(victim, 1, start=1)


FOREIGN = [
    (GradaGrad, torch.optim.Adagrad, r"gradagrad\.from_adagrad"),
    (GradaGrad, AutoGradaGrad, "saved by AutoGradaGrad; GradaGrad cannot use it"),
    *((AutoGradaGrad, other, r"AutoGradaGrad cannot use it\. Load only") for other in (GradaGrad, torch.optim.Adagrad)),
    (AutoGradaGrad, torch.optim.Adam, r"AutoGradaGrad cannot use it\. Load only"),
]


@pytest.mark.parametrize("steps", [0, 2])
@pytest.mark.parametrize(("cls", "other", "message"), FOREIGN)
def test_other_optimizers_dictionaries_are_refused(cls, other, message, steps):
    foreign = other(parameters(), lr=0.01)
    train(foreign, steps)
    victim = cls(parameters())
    train(victim, 1)
    before = copy.deepcopy(victim)
    with pytest.raises(ValueError, match=message):
        victim.load_state_dict(foreign.state_dict())
    assert_same(victim, before)
    assert victim.param_groups[0].keys() == before.param_groups[0].keys()


COPIES = {"deepcopy": copy.deepcopy, "pickle": lambda optimizer: pickle.loads(pickle.dumps(optimizer))}


@pytest.mark.parametrize("way", COPIES)
def test_one_tensor_is_shared_by_all_parameters(way):
    """Of all groups, of latecomers too, and still after loading or copying."""
    params, late = parameters(torch.bfloat16), torch.nn.Parameter(torch.ones(2))
    optimizer = AutoGradaGrad([{"params": params}, {"params": [late]}])
    for k in range(4):
        for p in params:
            p.grad = torch.ones_like(p)
        late.grad = torch.ones_like(late) if k == 3 else None
        optimizer.step()
    assert shared(optimizer).clock == 4
    assert optimizer.state[late]["step"] == 1
    twin = COPIES[way](optimizer)
    assert shared(twin) == shared(optimizer)
    assert twin.state[every_parameter(twin)[0]]["clock"] is not optimizer.state[late]["clock"]
    loaded = AutoGradaGrad([{"params": copy.deepcopy(params)}, {"params": [torch.nn.Parameter(torch.ones(2))]}])
    loaded.load_state_dict(through_a_file(optimizer.state_dict()))
    assert shared(loaded) == shared(optimizer)  # the base class would have rounded it to bfloat16
    train(loaded, 1)
    assert shared(loaded).clock == 5
    assert shared(optimizer).clock == 4


@both
def test_shared_memory(cls):
    optimizer, reference = made(cls, parameters()), made(cls, parameters())
    optimizer.share_memory()
    for _ in range(2):
        assert optimizer.state
        tensors = [value for p, own in optimizer.state.items() if p.numel() for value in own.values()]
        assert all(value.is_shared() for value in tensors)
        train(optimizer, 3)
        train(reference, 3)
        assert_same(optimizer, reference)


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
    train(optimizer, 2)
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
    train(optimizer, 1)
    resumed = GradaGrad(copy.deepcopy(params), lr=0.1, projection=mine)
    resumed.load_state_dict(optimizer.state_dict())
    assert resumed.param_groups[0]["projection"] is mine


LAYOUT = {GradaGrad: ("momentum", "growth", "accumulator"), AutoGradaGrad: ("accumulator", "offset", "displacement")}


@pytest.mark.parametrize("cls", LAYOUT)
def test_the_memory_layout_of_the_state_follows_the_parameter(cls):
    p = torch.nn.Parameter(torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last))
    optimizer = cls([p], lr=0.1)
    p.grad = torch.randn_like(p)
    optimizer.step()
    saved = copy.deepcopy(optimizer.state_dict())
    for key in LAYOUT[cls]:
        assert optimizer.state[p][key].stride() == p.stride()
        saved["state"][0][key] = saved["state"][0][key].contiguous()
    resumed = cls([copy.deepcopy(p)], lr=0.1)
    resumed.load_state_dict(saved)
    (state,) = resumed.state.values()
    assert all(state[key].stride() == p.stride() for key in LAYOUT[cls])
