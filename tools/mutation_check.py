"""Breaks the rules and the kernel in known ways, one at a time, and checks that the tests notice.

    python tools/mutation_check.py [WORD...]    all mutants, or those whose names contain one of the words

Works on a copy of the library in a temporary folder. The exit code is 1 if a mutant survives. The kernel's loops are
generated from the rules, so only the handwritten files in csrc have their own mutants.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Name, file below src/gradagrad, text to replace, replacement.
PAPER, AUTO, ROWS = "rules/gradagrad.py", "rules/auto.py", "torch_ops/views.py"
MUTANTS = [
    ("the sign of ρ flipped", PAPER, "agreement = gm * s.rho", "agreement = gm * -s.rho"),
    ("the restricted-increase clip dropped", PAPER, "minimum(clip, ops.sqrt(", "minimum(ops.largest, ops.sqrt("),
    ("the clip dropped with momentum", PAPER, "grows, ops.minimum(clip, root), 1.0)", "grows, root, 1.0)"),
    ("the cap on γ removed", PAPER, "ops.minimum(growth * increase, cap)", "growth * increase"),
    ("no AdaGrad at the cap", PAPER, "surplus = ops.where(ops.less(growth, cap), surplus, -gg)", "pass"),
    ("α shrinks where v < 0", PAPER, "alpha - ops.minimum(surplus, 0.0)", "alpha - surplus"),
    ("the fixed clip ignored", PAPER, "clip = ops.minimum(clip, s.growth_limit)", "pass"),
    ("G∞ ignored", PAPER, "surplus = ops.where(first, bounded, surplus)", "pass"),
    ("momentum without the metric's change", PAPER, "m * carried[0] + g * share", "m * s.beta + g * share"),
    ("projection leaves m alone", PAPER, "new_m = ops.where(ops.less(p, z)", "_ = ops.where(ops.less(p, z)"),
    ("lazy ignored", PAPER, "ops.where(touched, new_m, m)", "new_m"),
    ("eps left out", PAPER, "ops.sqrt(ops.maximum(new_alpha, ops.tiny)) + s.eps", "ops.sqrt(new_alpha)"),
    ("stale momentum kept", PAPER, 'ops.where(idle, 0.0, values["momentum"])', 'values["momentum"]'),
    ("rows' clocks stop", ROWS, "clocks.index_put_(self.index, later.to(clocks))", "pass"),
    ("auto: the sign of the step", AUTO, '"x": y - step', '"x": y + step'),
    ("auto: the sign of the displacement", AUTO, "D + step * moves * onward", "D - step * moves * onward"),
    ("auto: unweighted squares", AUTO, "square, first = g * g * weight", "square, first = g * g"),
    ("auto: β left out", AUTO, "(e - delta * s.beta) * left", "(e - delta) * left"),
    ("auto: zeros enter the displacement", AUTO, "D + step * moves * onward", "D + step * onward"),
    ("auto: decay does not count in P", AUTO, "g + pull * ops.minimum(divisor, ops.largest)", "g"),
    ("auto: the guard limits no gradient", AUTO, "ops.maximum(ops.minimum(g, limit), -limit))", "g)"),
    ("auto: the guard limits no square", AUTO, "ops.where(first, square, ops.minimum(square, B))", "square"),
    ("auto: the guard limits the first", AUTO, "ops.less(B, ops.tiny)", "ops.less(B, -1.0)"),
    ("auto: an overflowing square moves", AUTO, "ops.maximum(total * scale", "ops.maximum(new_B * scale"),
    ("auto: the displacement does not fade", AUTO, "c - c * FADE / (k + 1.0)", "c * 1.0"),
    ("auto: twice the rate of log γ", AUTO, "RATE = 0.85", "RATE = 1.7"),
    ("auto: a larger vote", AUTO, "LARGEST_VOTE = 0.1", "LARGEST_VOTE = 0.2"),
    ("auto: no pull to the mean", AUTO, "PULL = 0.5", "PULL = 0.0"),
    ("auto: no common vote", AUTO, "(own_vote + common_vote) * 0.5", "own_vote * 0.5"),
    ("auto: the cap on γ removed", AUTO, "ops.minimum(new_gamma, s.gamma_max)", "new_gamma"),
    ("auto: nothing is ever forgotten", AUTO, "FORGET = 2.0**-20", "FORGET = 2.0**-60"),
    ("auto: idle squares fade", AUTO, "(square - B * fade) * moves", "(square - B * fade)"),
    ("auto: other weights", AUTO, "root = k * k * k * block", "root = k * k * block"),
    ("auto: weights without γ", AUTO, 'k * k * block["common_gamma"]', "k * k"),
    ("auto: h is always 1", AUTO, "ops.minimum(ops.sqrt(newest * k / (total * 7.0)), 1.0)", "1.0"),
    ("auto: a step of zeros counts", AUTO, "moved = ops.less(0.0, s.moved)", "moved = ops.less(-1.0, s.moved)"),
    ("auto: untouched rows stop", AUTO, "ops.minimum(since, now) / ops.maximum(now, LEAST)", "1.0"),
]  # fmt: skip
KERNEL_MUTANTS = [
    ("kernel: gaps in memory are elements", "tensors.cpp", "if (a.strides[d] != expected) return false;", ""),
    ("kernel: shared memory goes unnoticed", "tensors.cpp", "if (overlap(written_, read_))", "if (false)"),
    ("kernel: other strides go unnoticed", "tensors.cpp", "if (!same_strides(a, *role.like))", "if (false)"),
    ("kernel: rows outside the table", "sparse.cpp", "if (!inside)", "if (false)"),
    ("kernel: repeated rows are not added up", "sparse.cpp", "if (sorted.occurrences(i) > 1) {", "if (false) {"),
    ("kernel: rows' clocks stop", "pass.cpp", "std::exchange(clocks[block.begin], after)", "clocks[block.begin]"),
    ("kernel: a thread stops too early", "step.cpp", "(until + place.unit - 1) / place.unit", "until / place.unit"),
    ("kernel: steps are not counted", "step.cpp", "for (int64_t* counter : counters_) ++*counter;", ""),
    ("kernel: a unit's sum is left out", "step.cpp", "u = 0; u < units", "u = 1; u < units"),
]  # fmt: skip
TESTS = ["test_faithful.py", "test_adagrad.py", "test_properties.py", "test_sparse.py", "test_precision.py"]
AUTO_TESTS = ["test_faithful_auto.py", "test_sparse.py", "test_averaging.py", "test_robust.py"]


def mutated(name: str, file: Path, old: str, new: str) -> str:
    """The text of a file with the mutation in place."""
    text = file.read_text()
    if old not in text:
        raise SystemExit(f"The mutation check is out of date: {name!r} no longer finds {old!r} in {file.name}.")
    return text.replace(old, new)


def survives(name: str, tests: list[str], **environment: str) -> bool:
    """Whether the tests pass. A crash counts as noticed."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:randomly", *tests]
    environment = {**os.environ, **environment}
    result = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=1800)
    if result.returncode in (2, 3, 4, 5):
        raise SystemExit(f"the tests could not run for {name!r}:\n{result.stdout[-2000:]}{result.stderr[-2000:]}")
    first = next((line[7:110] for line in result.stdout.splitlines() if line.startswith("FAILED")), "")
    print(f"{'SURVIVED' if result.returncode == 0 else 'killed':9} {name:45} {first}", flush=True)
    return result.returncode == 0


def rule_survives(name: str, file: str, old: str, new: str) -> bool:
    """Whether a mutant of a rule goes unnoticed. The kernel stays that of the rules as they are."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "gradagrad"
        kernel = f"{library}/kernel/_kernel.abi3.so"
        shutil.copytree(ROOT / "src" / "gradagrad", library)
        (library / file).write_text(mutated(name, library / file, old, new))
        tests = [f"{ROOT}/tests/{test}" for test in (AUTO_TESTS if file == AUTO else TESTS)]
        return survives(name, tests, PYTHONPATH=folder, OMP_NUM_THREADS="1", GRADAGRAD_KERNEL_PATH=kernel)


@cache
def objects() -> Path:
    """The kernel compiled once. A mutant replaces one of its files."""
    folder = Path(tempfile.mkdtemp(prefix="mutation-"))
    for source in sorted((ROOT / "src/gradagrad/kernel/csrc").glob("*.cpp")):
        compiled(source, folder)
    return folder


def compiled(source: Path, folder: Path) -> None:
    """Compiles one file without the variants for instruction sets, which would take minutes."""
    include = [f"-I{ROOT / 'src/gradagrad/kernel/csrc'}", f"-I{torch_folder() / 'include'}"]
    options = ["-std=c++17", "-O1", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-DGRADAGRAD_NO_CLONES"]
    options += ["-DTORCH_TARGET_VERSION=0x020a000000000000", *include]
    command = [os.environ.get("CXX", "g++"), *options, "-c", str(source), "-o", str(folder / f"{source.stem}.o")]
    subprocess.run(command, check=True)


def torch_folder() -> Path:
    """The folder of torch, found without importing it."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def kernel_survives(name: str, file: str, old: str, new: str) -> bool:
    """Whether a mutant of the kernel goes unnoticed."""
    with tempfile.TemporaryDirectory() as folder:
        for path in objects().glob("*.o"):
            shutil.copy(path, folder)
        source = Path(folder) / file
        source.write_text(mutated(name, ROOT / "src/gradagrad/kernel/csrc" / file, old, new))
        compiled(source, Path(folder))
        library = Path(folder) / "_kernel.abi3.so"
        parts = [str(path) for path in Path(folder).glob("*.o")]
        link = [os.environ.get("CXX", "g++"), "-shared", *parts, "-o", str(library), f"-L{torch_folder() / 'lib'}"]
        subprocess.run([*link, "-ltorch_cpu"], check=True)
        tests = [*ROOT.glob("tests/engine/test_kernel_*.py"), "tests/test_sparse.py"]
        return survives(name, tests, GRADAGRAD_KERNEL_PATH=str(library), OMP_NUM_THREADS="2")


def main(words: list[str]) -> int:
    """Tries all mutants, or those whose names contain one of the words."""
    chosen = [m for m in (*MUTANTS, *KERNEL_MUTANTS) if not words or any(word in m[0] for word in words)]
    try:
        survivors = [m[0] for m in chosen if (kernel_survives if m in KERNEL_MUTANTS else rule_survives)(*m)]
    finally:
        if objects.cache_info().currsize:
            shutil.rmtree(objects())
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants killed")
    return bool(survivors)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
