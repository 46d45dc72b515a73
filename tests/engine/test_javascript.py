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


def in_python(name: str, case: dict) -> tuple[list, list, list]:
    start, gradient = PROBLEMS[case["problem"]]
    x = torch.nn.Parameter(torch.tensor(start, dtype=torch.float64))
    if name == "AutoGradaGrad":
        optimizer = AutoGradaGrad([x], gamma0=case["gamma0"], fused=False)
    else:
        own = {"rho": case["rho"], "momentum": case["beta"]} if name == "GradaGrad" else {"rho": 0.0}
        optimizer = GradaGrad([x], lr=case["gamma0"], **own, fused=False)
    noise = uniform(case["seed"])
    points, gammas, averages = [x.tolist()], [], []
    for _ in range(STEPS):
        x.grad = gradient(x.detach()) + torch.tensor(
            [case["noise"] * next(noise) for _ in range(len(x))], dtype=torch.float64
        )
        optimizer.step()
        points.append(x.tolist())
        state = optimizer.state[x]
        block = state["gamma"] if name == "AutoGradaGrad" else state["growth"][0] * case["gamma0"]
        gammas.append(float(block))
        if name == "AutoGradaGrad":
            with optimizer.averaged():
                averages.append(x.tolist())
    return points, gammas, averages


NAMES = ["AdaGrad", "GradaGrad", "AutoGradaGrad"]
ALL_RUNS = f"{json.dumps(CASES)}.map((c) => {json.dumps(NAMES)}.map((n) => gradagradRuns.run(n, c)))"


def in_node(request: pytest.FixtureRequest | None, value: str = ALL_RUNS) -> list:
    if shutil.which("node") is None:
        pytest.skip("node is not here")
    program = f"const gradagradRuns = require('./runs.js'); console.log(JSON.stringify({value}))"
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
            found = in_python(name, case)
            for ours, theirs in zip(found, (shown["points"], shown["gammas"], shown["averages"]), strict=True):
                torch.testing.assert_close(
                    torch.tensor(theirs, dtype=torch.float64), torch.tensor(ours, dtype=torch.float64),
                    rtol=1e-12, atol=1e-12, msg=lambda text, c=case, n=name: f"{n} {c}: {text}",
                )  # fmt: skip


LESSONS = """gradagradRuns.lessons.map(({ settings }) => {
  const chosen = { problem: "abs", rho: 2, beta: 0, noise: 0, steps: 200, seed: 1, ...settings };
  if (chosen.gamma0 !== undefined) chosen.gamma0 = 10 ** chosen.gamma0;
  const ends = (more) => Object.keys(gradagradRuns.optimizers).map((n) => gradagradRuns.run(n, { ...chosen, ...more }))
    .map((r) => [r.losses.slice(Math.floor(0.8 * r.losses.length)).reduce((a, b) => a + b) / (0.2 * r.losses.length),
      r.gammas[r.gammas.length - 1] / chosen.gamma0]);
  return [ends({}), ends({ rho: 20 })];
})"""


def test_the_lessons_say_what_the_page_shows():
    (small, _), (noisy, raised), (large, _), (valley, _) = in_node(None, LESSONS)
    assert small[0][0] > 2.9, "AdaGrad does not move"
    assert max(loss for loss, _ in small[1:]) < 0.2
    assert small[1][1] > 1e6
    assert noisy[1][0] > 2.5
    assert 3 < noisy[1][1] < 30, "about tenfold"
    assert max(raised[1][0], noisy[2][0]) < 0.2
    assert large[1][1] >= 1 > 10 * large[2][1], "GradaGrad's γ does not fall, AutoGradaGrad's falls below 1"
    assert large[2][0] < large[1][0] / 2
    assert valley[0][0] > 5 > 1e-3 > max(loss for loss, _ in valley[1:])
