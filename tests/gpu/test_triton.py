"""The Triton backend without a GPU: launches, tables, refusals, generated text, and runs in Triton's interpreter."""

import functools
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch._subclasses import FakeTensorMode

from benchmarks import gpu_model
from gpu import golden
from gpu.interpreted.batches import batch_of, set_gradients
from gradagrad.engine import step as engine
from gradagrad.engine.batch import Batch
from gradagrad.engine.plan import Plan
from gradagrad.projections import Box
from gradagrad.rules import gradagrad
from gradagrad.torch_ops.steps import TorchStep
from gradagrad.triton import backend, check, launch
from gradagrad.triton.backend import TritonBackend, TritonStep
from gradagrad.triton.source import source_of

ROOT = Path(__file__).parents[2]
UNAVAILABLE = backend.unavailable


@pytest.mark.parametrize("file", sorted(p.name for p in (Path(__file__).parent / "interpreted").glob("test_*.py")))
def test_in_the_interpreter(file):
    """Triton reads TRITON_INTERPRET when it is imported, so each file runs in its own process."""
    pytest.importorskip("triton")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "GRADAGRAD_BACKEND": "triton", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"tests/gpu/interpreted/{file}"]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


# Dispatch, with a launcher that records launches.


class Launches(list):
    """A launcher that checks that each kernel gets what it asks for."""

    def __call__(self, spec, name, programs, arguments):
        header = re.search(rf"def {name}_kernel\((.*?)\):", source_of(spec).text(), re.DOTALL)
        assert header
        wanted = {argument.split(":")[0].strip() for argument in header[1].split(",")}
        assert wanted <= arguments.keys()
        assert all(value.device == arguments["table"].device for value in arguments.values() if torch.is_tensor(value))
        self.append((name, programs, arguments))

    @property
    def names(self):
        return [name for name, *_ in self]


@pytest.fixture(autouse=True)
def _as_if_interpreting(monkeypatch):
    """CPU tensors take the place of tensors on a GPU; Triton itself is not needed."""
    monkeypatch.setenv("GRADAGRAD_BACKEND", "triton")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(backend, "unavailable", lambda: None)
    monkeypatch.setattr(TritonBackend, "_check_once", lambda *_: None)  # recorded launches compute nothing


MANY_SHAPES = [(64, 33), (33,)] * 80


@pytest.mark.parametrize(
    ("scope", "settings", "names"),
    [
        ("element", {}, ["step"]),
        ("tensor", {}, ["measure", "move", "write_shared"]),
        ("group", {"beta": 0.9}, ["measure", "move", "write_shared"]),
        ("auto", {}, ["move", "complete"]),
    ],
)
def test_launches_for_160_tensors(scope, settings, names):
    launches = Launches()
    batch = batch_of(scope, shapes=MANY_SHAPES, **settings)
    set_gradients(batch, 0)
    step = TritonBackend(launches).prepare(batch)
    assert not isinstance(step, str), step
    step.take()
    assert launches.names == names
    assert all(int(step) == 1 for step in batch.steps)


def test_kinds_of_tensors_have_kernels_of_their_own_and_share_the_block():
    batch = batch_of("group", shapes=[(8, 4), (8, 4), (4,)])
    batch.params[1], batch.params[2] = batch.params[1].bfloat16(), batch.params[2].half()
    set_gradients(batch, 0)
    launches = Launches()
    TritonStep(TritonBackend(launches), batch).take()
    assert launches.names == ["measure"] * 3 + ["move"] * 3 + ["write_shared"]
    measured = [arguments for name, _, arguments in launches if name == "measure"]
    assert [arguments["first"] for arguments in measured] == [0, 1, 2]  # one after the other in the same memory
    written = launches[-1][2]
    assert written["sums"].shape == (3, 2)
    assert written["sum_spans"].tolist() == [0, 3]


def test_chunks_cover_every_element_once_and_promise_only_what_is_aligned():
    memory = torch.zeros(20_001)
    batch = batch_of("element", shapes=[(20_000,), (20_000,), (0,)])
    batch.params[1] = memory[1:]
    launches = Launches()
    TritonStep(TritonBackend(launches), batch).take()
    shares = launches[0][2]["work"].reshape(-1, 4).tolist()
    for tensor, size in enumerate((20_000, 20_000, 0)):
        own = [share for share in shares if share[0] == tensor]
        places = [place for _, begin, count, _ in own for place in range(begin, begin + count)]
        assert places == list(range(size))
        assert all(begin % 512 == 0 and full % 512 == 0 for _, begin, _, full in own)
        assert sum(full for *_, full in own) == (19_968 if tensor == 0 else 0)


def test_tables_are_made_once_for_the_same_addresses(monkeypatch):
    uploads = []
    upload = functools.lru_cache(lambda device, numbers: uploads.append(len(numbers)) or torch.tensor(numbers))
    monkeypatch.setattr(launch, "upload", upload)
    launch.shares_of.cache_clear()
    batch, launches = batch_of("group", shapes=MANY_SHAPES, beta=0.9), Launches()
    steps = TritonBackend(launches)
    TritonStep(steps, batch).take()
    first = len(uploads)
    for _ in range(3):
        TritonStep(steps, batch).take()
    assert len(uploads) == first
    kept = batch.grads[0]
    batch.grads[0] = torch.zeros_like(kept)
    TritonStep(steps, batch).take()
    assert len(uploads) == first + 1  # addresses only
    batch.grads[0] = kept
    TritonStep(steps, batch).take()
    assert len(uploads) == first + 1
    settings = batch.settings._replace(lr=0.0, rho=3.0, beta=0.5)
    batch.plan = replace(batch.plan, settings=settings)  # a schedule needs no new text
    TritonStep(steps, batch).take()
    assert len({id(arguments["table"]) for _, _, arguments in launches}) == 2
    assert launches[-1][2]["lr"] == 0.0


@pytest.mark.parametrize(
    ("reason", "change", "settings"),
    [
        ("differentiable=True needs torch", lambda b: setattr(b.plan, "differentiable", True), {}),
        ("a projection needs torch", lambda b: None, {"project": Box(0.0, 1.0)}),
        ("lr_decay needs torch", lambda b: setattr(b.plan, "lr_decay", 0.5), {}),
        ('granularity="row" needs torch', lambda b: None, {"scope": "row"}),
        ('lazy=True with granularity="group" needs torch', lambda b: None, {"scope": "group", "lazy": True}),
        ("without gaps", lambda b: b.params.__setitem__(0, torch.zeros(4, 12)[:, ::2]), {}),
        (
            '"momentum" of parameter 3 must be laid out',
            lambda b: b.state["momentum"].__setitem__(0, torch.zeros(6, 4).t()),
            {},
        ),
        ("must be torch.float32", lambda b: b.state["momentum"].__setitem__(0, torch.zeros(4, 6).half()), {}),
        ("16, 32 or 64 bits", lambda b: b.params.__setitem__(0, torch.zeros(4, 6, dtype=torch.int32)), {}),
        ("gradients must be dense", lambda b: b.grads.__setitem__(0, torch.eye(4, 6).to_sparse(1)), {}),
        (r"GPU that Triton knows \(cuda\), got cpu", lambda b: os.environ.pop("GRADAGRAD_BACKEND"), {}),
    ],
)
def test_refusals(reason, change, settings):
    batch = batch_of(settings.pop("scope", "element"), shapes=[(4, 6)], **settings)
    change(batch)
    said = TritonBackend(Launches()).prepare(batch)
    assert isinstance(said, str)
    assert re.search(reason, said)
    documented = (ROOT / "docs" / "gpu.md").read_text().split("| message |")[1].split("\n\n")[0]
    assert any(
        part in said for row in documented.splitlines()[2:] for part in row.split(" | ")[1].strip(" |").split("; ")
    )


def test_says_that_triton_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.setattr(backend, "unavailable", UNAVAILABLE.__wrapped__)
    said = TritonBackend().prepare(batch_of("element"))
    assert isinstance(said, str)
    assert said.startswith("triton cannot be imported")
    assert "it comes with torch for CUDA and ROCm" in said


def test_a_captured_graph_needs_its_tables_and_keeps_them(monkeypatch):
    monkeypatch.setattr(backend, "_capturing", lambda batch: True)
    batch = batch_of("group", shapes=MANY_SHAPES)
    steps = TritonBackend(Launches())
    reason = steps.prepare(batch)
    assert "take a step first" in reason
    assert "zero_grad(set_to_none=False)" in reason
    monkeypatch.setattr(backend, "_capturing", lambda batch: False)
    steps.prepare(batch).take()
    monkeypatch.setattr(backend, "_capturing", lambda batch: True)
    steps.prepare(batch).take()
    assert steps.captured


@pytest.mark.parametrize(("fused", "foreach"), [(None, None), (True, None), (False, None), (None, True)])
def test_choice_of_backend_on_a_gpu(fused, foreach, monkeypatch):
    """fused=None uses Triton where possible, fused=True requires it, and foreach=True does not use it."""
    with FakeTensorMode():
        tensors = [torch.empty(2, device="cuda")]
    plan = Plan(gradagrad.RULE, gradagrad.Settings(), "element", fused=fused, foreach=foreach)
    batch = Batch(plan, tensors, tensors, state={"momentum": tensors})
    launched = object()
    monkeypatch.setattr(backend.TRITON, "prepare", lambda batch: launched)
    wanted = fused or (fused is None and not foreach)
    assert (engine.prepared(batch) is launched) == wanted
    monkeypatch.setattr(backend.TRITON, "prepare", lambda batch: "no reason.")
    if fused:
        with pytest.raises(RuntimeError, match="fused=True is impossible here: no reason"):
            engine.prepared(batch)
    else:
        assert isinstance(engine.prepared(batch), TorchStep)


# The text.


@pytest.mark.parametrize("name", golden.SPECS)
def test_generated_source_is_the_golden_one(name):
    assert source_of(golden.SPECS[name]).text() == golden.path(name).read_text(), (
        "if this is meant: python tests/gpu/golden.py"
    )


def test_the_gpu_command_says_that_there_is_none(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert check.main() == 1
    assert capsys.readouterr().out.startswith("No GPU: torch")
    assert check.triton_status() == "not used: torch finds no CUDA or ROCm device here."
    assert backend.versions(torch.device("cpu")).startswith("gradagrad ")


# The cost model.


@pytest.mark.parametrize(
    ("name", "launches", "size", "times_adam"),
    [
        ("element", 1, 36, 1.35),
        ("element, β = 0.9", 1, 36, 1.35),
        ("element, β = 0.9, bf16 state", 1, 24, 1.0),
        ("group, β = 0.9", 3, 28, 1.1),
        ("AutoGradaGrad", 244, 40, 2.0),  # γ is learned by torch operations
    ],
)
def test_launches_and_bytes_can_only_fall(name, launches, size, times_adam):
    cost, adam = gpu_model.kernels(gpu_model.OURS[name]), gpu_model.fused_adam()
    assert (cost.launches, cost.size) == (launches, size)
    for gpu in gpu_model.GPUS.values():
        assert cost.seconds(gpu, 84_000_000) <= times_adam * adam.seconds(gpu, 84_000_000)
