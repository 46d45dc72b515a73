"""The page to play with: its rules are what the rules generate, and its runs are Python's."""

import json
import shutil
import subprocess

import pytest
import torch

from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad_lab.report import javascript

STATIC = javascript.PATH.parent
STEPS = 100
PROBLEMS = {
    "abs": ([3.0], lambda x: torch.sign(x)),
    "valley": ([3.0, 1.0], lambda x: x * torch.tensor([1.0, 25.0], dtype=torch.float64)),
}
CASES = [
    {"problem": problem, "gamma0": gamma0, "rho": rho, "beta": beta, "noise": noise, "steps": STEPS, "seed": 3}
    for problem, gamma0, rho, beta, noise in [
        ("abs", 1e-6, 2.0, 0.0, 0.0),
        ("abs", 1e-3, 10.0, 0.5, 2.0),
        ("valley", 1e-4, 2.0, 0.0, 0.0),
        ("valley", 0.1, 5.0, 0.9, 4.0),
    ]
]


def test_the_script_is_what_the_rules_generate():
    assert javascript.PATH.read_text(encoding="utf-8") == javascript.script(), (
        "python -m gradagrad_lab.report.javascript"
    )


def uniform(seed: int):
    """mulberry32, from -1 to 1, as runs.js has it."""
    mask = 0xFFFFFFFF
    state = seed
    while True:
        state = (state + 0x6D2B79F5) & mask
        t = ((state ^ (state >> 15)) * (state | 1)) & mask
        t ^= (t + (((t ^ (t >> 7)) * (t | 61)) & mask)) & mask
        yield ((t ^ (t >> 14)) & mask) / 2147483648 - 1


def in_python(name: str, case: dict) -> tuple[list, list]:
    start, gradient = PROBLEMS[case["problem"]]
    x = torch.nn.Parameter(torch.tensor(start, dtype=torch.float64))
    shared = {"momentum": case["beta"], "fused": False}
    if name == "AutoGradaGrad":
        optimizer = AutoGradaGrad([x], gamma0=case["gamma0"], **shared)
    else:
        optimizer = GradaGrad([x], lr=case["gamma0"], rho=case["rho"] if name == "GradaGrad" else 0.0, **shared)
    noise = uniform(case["seed"])
    points, gammas = [x.tolist()], []
    for _ in range(STEPS):
        x.grad = gradient(x.detach()) + torch.tensor(
            [case["noise"] * next(noise) for _ in range(len(x))], dtype=torch.float64
        )
        optimizer.step()
        points.append(x.tolist())
        state = optimizer.state[x]
        block = state["gamma"] if name == "AutoGradaGrad" else state["growth"][0] * case["gamma0"]
        gammas.append(float(block))
    return points, gammas


NAMES = ["AdaGrad", "GradaGrad", "AutoGradaGrad"]
ALL_RUNS = f"{json.dumps(CASES)}.map((c) => {json.dumps(NAMES)}.map((n) => gradagradRuns.run(n, c)))"


def in_node(request: pytest.FixtureRequest) -> list:
    if shutil.which("node") is None:
        pytest.skip("node is not here")
    program = f"const gradagradRuns = require('./runs.js'); console.log(JSON.stringify({ALL_RUNS}))"
    return json.loads(subprocess.check_output(["node", "-e", program], cwd=STATIC, text=True, timeout=200))


def in_chromium(request: pytest.FixtureRequest) -> list:
    browser = request.getfixturevalue("browser")
    page = request.getfixturevalue("tmp_path") / "page.html"
    page.write_text("".join(f'<script src="{(STATIC / name).as_uri()}"></script>' for name in ("rules.js", "runs.js")))
    browser.open(page, width=390, scheme="light")
    assert browser.error_texts() == []
    return browser.value(ALL_RUNS)


@pytest.mark.filterwarnings("ignore::gradagrad.LargeFirstStepWarning")
@pytest.mark.parametrize("where", [in_node, in_chromium])
def test_its_runs_are_pythons(where, request: pytest.FixtureRequest):
    for case, runs in zip(CASES, where(request), strict=True):
        for name, shown in zip(NAMES, runs, strict=True):
            points, gammas = in_python(name, case)
            for ours, theirs in ((points, shown["points"]), (gammas, shown["gammas"])):
                torch.testing.assert_close(
                    torch.tensor(theirs, dtype=torch.float64), torch.tensor(ours, dtype=torch.float64),
                    rtol=1e-12, atol=1e-12, msg=lambda text, c=case, n=name: f"{n} {c}: {text}",
                )  # fmt: skip
