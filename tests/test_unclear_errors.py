"""The library, its readers of files and the command line say in words what is wrong."""

import pytest
import torch

import gradagrad
from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad_lab.cli.app import run
from gradagrad_lab.cli.options import parse_options, parse_value
from gradagrad_lab.data import data_folder
from gradagrad_lab.errors import UserError

META = torch.empty((), device="meta")


def constructed(**options):
    return lambda _: GradaGrad([torch.nn.Parameter(torch.ones(2))], **options)


def taken_over(size):
    """Takes over an Adagrad whose sum has two elements and whose parameter has ``size``."""

    def act(_):
        p = torch.nn.Parameter(torch.ones(size))
        adagrad = torch.optim.Adagrad([p])
        adagrad.state[p].update(step=torch.tensor(1.0), sum=torch.ones(2))
        return gradagrad.from_adagrad(adagrad)

    return act


NESTED = "[" * 100_000
# What is tried, the kind of error, what it says.
UNCLEAR = {
    "an eps that float32 does not have": (constructed(eps=1e300), ValueError, r"eps must be .* at most 3\.4e\+38"),
    "an lr without a value": (constructed(lr=META), TypeError, "lr must be .*with a value"),
    "Adagrad of another shape": (taken_over(3), ValueError, r"shape \(3,\) has a sum of shape \(2,\)"),
    "2^99999": (lambda _: GradaGrad([META], **parse_options(["lr=2^99999"])), ValueError, "lr must be .* got inf"),
    "a deeply nested option": (lambda _: GradaGrad([META], lr=parse_value(NESTED)), TypeError, "lr must be"),
}


@pytest.mark.parametrize("case", UNCLEAR)
def test_what_is_wrong_is_said_in_words(case, tmp_path, monkeypatch):
    monkeypatch.setenv("GRADAGRAD_CACHE", str(tmp_path))
    act, error, message = UNCLEAR[case]
    with pytest.raises(error, match=message):
        act(tmp_path)


def test_meta_parameters_step_without_the_kernel():
    p = torch.nn.Parameter(torch.ones(2, device="meta"))
    p.grad = torch.ones(2, device="meta")
    GradaGrad([p]).step()


def test_messages_are_printed_as_they_are(capsys):
    """Not as rich's markup, which has tags in brackets and pictures between colons."""
    for text in (":x:", "[bold]", "\\\\[/nothing]"):
        assert run(["train", f"no{text}data", "--out", "/nowhere"]) != 0
        assert f"no{text}data" in capsys.readouterr().err


def test_sharded_tables_of_torchrec_cannot_share_a_decision(monkeypatch):
    """Ranks would decide by the tables they hold, and the replicas of the dense parameters would drift apart."""

    class TableBatchedEmbeddingSlice(torch.nn.Parameter):
        pass

    def params():
        return [TableBatchedEmbeddingSlice(torch.ones(3, 2)), torch.nn.Parameter(torch.ones(2))]

    shared = [lambda p: GradaGrad(p, granularity="row"), lambda p: GradaGrad(p, granularity="all"), AutoGradaGrad]
    for construct in shared:
        construct(params())  # alone
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    for construct in shared:
        with pytest.raises(ValueError, match=r"Construct the optimizer with .*torchrec\.optimizer_for"):
            construct(params())
    table = GradaGrad(params()).param_groups[0]["params"][0]
    table._in_backward_optimizers = []
    with pytest.raises(ValueError, match="FBGEMM steps it in backward"):
        GradaGrad([table])


def test_the_home_of_nobody_is_a_folder_that_does_not_exist(monkeypatch):
    monkeypatch.setenv("GRADAGRAD_DATA", "~nouser/x")
    with pytest.raises(UserError, match=r"The data folder ~nouser/x .* does not exist"):
        data_folder(None)
