"""How far a reader follows a step, or `gradagrad reproduce figure3`: functions and files, printed with ``-s``."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import gradagrad
from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad.engine.batch import Batch

LIBRARY = Path(gradagrad.__file__).parent


def walk(step):
    """The functions of the library that a step passes through, in order, as (file, name)."""
    seen = {}

    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(LIBRARY)) and code.co_name.isidentifier():
            seen.setdefault((str(Path(code.co_filename).relative_to(LIBRARY)), code.co_qualname))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        step()
    finally:
        sys.setprofile(before)
    return list(seen)


def sharded(params):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, distribute_tensor

    mesh = init_device_mesh("cpu", (1,))
    return [torch.nn.Parameter(distribute_tensor(p.detach(), mesh, [Replicate()])) for p in params]


@pytest.fixture
def one_rank(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


# At most so many functions and files; the rule itself counts.
WALKS = {
    "fused": (GradaGrad, {"fused": True}, 15, 3),
    "unfused": (GradaGrad, {"fused": False, "foreach": False}, 45, 6),
    "foreach": (GradaGrad, {"foreach": True}, 45, 6),
    "sparse": (GradaGrad, {"lazy": True, "granularity": "row"}, 28, 9),
    "sharded": (GradaGrad, {"fused": False, "granularity": "group"}, 73, 11),
    "auto": (AutoGradaGrad, {"fused": True}, 22, 6),
}
FIRST = {"fused": (43, 13)}


@pytest.mark.filterwarnings("ignore::gradagrad.LargeFirstStepWarning")
@pytest.mark.parametrize("kind", WALKS)
def test_the_walk_of_a_step_is_short(kind, one_rank):
    gradagrad.kernel_status()  # Loading the kernel is not part of a step.
    make, options, functions, files = WALKS[kind]
    params = [torch.nn.Parameter(torch.randn(4, 2)) for _ in range(3)]
    if kind == "sharded":
        params = sharded(params)
    optimizer = make(params, **({} if make is AutoGradaGrad else {"lr": 1e-6}), **options)
    walks = []
    for _ in range(2):
        for p in params:
            gradient = torch.randn(4, 2).to_sparse(1) if kind == "sparse" else torch.randn(4, 2)
            p.grad = sharded([gradient])[0].data if kind == "sharded" else gradient
        walks.append(walk(optimizer.step))
    first, passed = walks
    print(f"\n{kind}: {len(passed)} functions in {len({file for file, _ in passed})} files")
    for file, name in passed:
        print(f"  {file:28} {name}")
    assert 10 <= len(passed) <= functions
    assert len({file for file, _ in passed}) <= files
    if kind in FIRST:
        assert (len(first), len({file for file, _ in first})) <= FIRST[kind]


def test_a_batch_has_few_fields():
    assert len(dataclasses.fields(Batch)) <= 14


PROGRAM = """
import sys
files = set()

def called(frame, event, argument):
    if event == "call" and "gradagrad_lab" in frame.f_code.co_filename and frame.f_code.co_name != "<module>":
        files.add(frame.f_code.co_filename)

sys.setprofile(called)
from gradagrad_lab.cli import app
code = app.run(["reproduce", "figure3", "--only", "iris", "--seeds", "1", "--workers", "1", "--out", sys.argv[1]])
sys.setprofile(None)
print(*sorted(files), sep="\\n", file=sys.stderr)
sys.exit(code)
"""


def test_figure_3_runs_functions_of_few_files(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADAGRAD_OFFLINE", "1")
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    files = subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()
    assert 20 <= len(files) <= 45, files
