"""Breaks the kernel's restatement of the rule in known ways, one at a time, and shows that its tests notice each.

Works in a temporary folder; the tree is never touched. To be affordable, the kernel is built without clones for several
instruction sets and with little optimization, and only the pairs of formats that show a mutant are built anew for it.
Exit code 1 if a mutant survives.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src" / "gradagrad" / "csrc"
FOLDER = Path(torch.__file__).parent

# name, file below csrc, what stands there, what the mutant has instead
MUTANTS = [
    ("the sign of ρ flipped", "rule.h", "C v = gg - agreement;", "C v = gg + agreement;"),
    ("the restricted-increase clip dropped", "rule.h", "smaller = at_most(stretch, clip);", "smaller = stretch;"),
    ("the clip below one", "rule.h", "at_least(agreement / at_least(gg, tiny), one)", "agreement / at_least(gg, tiny)"),
    ("α shrinks where v < 0", "rule.h", "alpha + at_least(v, zero), largest", "alpha + v, largest"),
    ("the growth's root left out", "loops.h", "root(rule.squared_stretch(v,", "(rule.squared_stretch(v,"),
    ("α for α' in the step", "loops.h", "rule.root_of(after.alpha)", "rule.root_of(before.alpha)"),
    ("eps left out", "rule.h", "root(at_least(alpha, tiny)) + eps", "root(at_least(alpha, tiny))"),
    ("the cap on γ removed", "rule.h", "at_most(growth * factor, cap)", "growth * factor"),
    ("no AdaGrad at the cap", "rule.h", "v = capped && !(before.growth < cap) ? gg : v;", ""),
    ("the fixed clip ignored", "rule.h", "factor = at_most(factor, growth_limit);", ";"),
    ("G∞ ignored", "rule.h", "v = before.alpha < first_below ? first : v;", ""),
    ("coupled decay ignored", "rule.h", "g + x * coupled_decay", "g"),
    ("decoupled decay ignored", "rule.h", "const C start = x * keep;", "const C start = x;"),
    ("the step's sign flipped", "rule.h", "start - new_m * pace.rate", "start + new_m * pace.rate"),
    ("old growth in the step", "rule.h", "const C gamma = lr * new_growth;", "const C gamma = lr * growth;"),
    ("momentum without the metric's change", "rule.h", "new_root, beta * quotient)", "new_root, beta)"),
    ("(1 − β) left out", "rule.h", "m * pace.carry + g * one_minus_beta", "m * pace.carry + g"),
    ("projection leaves m alone", "rule.h", "new_m = choose(project, pushed, new_m);", ""),
    ("the projection's old step left out", "rule.h", "if (BETA) z = z - m * pace.back;", ""),
    ("lazy ignored", "loops.h", "OPTIONS && rule.lazy && slope == C(0)", "false"),
    ("a NaN lost", "numbers.h", "return a != a ? a : smaller;", "return smaller;"),
    ("Σ g·m for Σ g²", "loops.h", "gg += a * a;", "gg += a * load<double>(m[i]);"),
    ("bf16 rounded down", "numbers.h", "reinterpret<uint32_t>(value) + up", "reinterpret<uint32_t>(value)"),
    ("bf16 by hand: halves exchanged", "lanes.h", "raised(a, random.high(), a, ", "raised(a, random.low(), a, "),
    ("auto: never seen elements count", "auto_rule.h", "-B < C(0) ? g : C(0)", "g"),
    ("auto: g² for g·h", "auto_rule.h", "gh = slope * h / divisor", "gh = slope * slope / divisor"),
    ("auto: N for Q", "auto_rule.h", "terms.values[2] += gg * gg;", "terms.values[2] += gh * gh;"),
    ("auto: R grows unweighted", "auto_rule.h", "B + g * g * weight, largest)) - root", "B + g * g, largest)) - root"),
    ("auto: (1 − β) left out", "auto_rule.h", "h * momentum + g * fresh", "h * momentum + g"),
    ("auto: zeros move along momentum", "auto_rule.h", "(moves ? mean : g) * rate", "mean * rate"),
    ("auto: zeros change the momentum", "auto_rule.h", "h = moves ? mean : h;", "h = mean;"),
    ("auto: eps left out", "auto_rule.h", "at_least(B * scale, tiny)) + eps;", "at_least(B * scale, tiny));"),
    ("auto: decoupled decay ignored", "auto_rule.h", "x = x * keep -", "x = x -"),
    ("auto: the average stands still", "auto_rule.h", "mean + (x - mean) * share", "mean"),
    ("auto: late rows' averages rest", "auto_loops.h", "left = static_cast<C>(fade(clock, now));", ";"),
    ("auto: row clocks stand still", "auto_loops.h", "clock = static_cast<int32_t>(numbers.step + 1.0);", ""),
    ("auto: halves of random bits exchanged", "auto_loops.h", "sum, high(bits, i));", "sum, low(bits, i));"),
    ("bf16 by hand: the clip dropped", "avx2.h", "load8(clips + at)));", "rule.largest));"),
]  # fmt: skip
# Sources that are built anew for a mutant of a header.
DEFAULT = ["loops_f32_f32", "loops_f64_f64"]
AFFECTED = {"numbers.h": [*DEFAULT, "loops_f32_bf16"], "lanes.h": ["avx2_bf16"], "avx2.h": ["avx2_bf16"]}
AUTO = ["auto_loops_precise", "auto_loops_rounded"]
AFFECTED |= {"auto_rule.h": AUTO, "auto_loops.h": AUTO}
TESTS = ["fused/test_rule.py", "fused/test_bf16_state.py"]
AUTO_TESTS = ["auto/test_fused.py", "auto/test_fused_sparse.py"]


def compile_one(source: Path, to: Path) -> Path:
    """The object file of one source; its headers are those beside it."""
    result = to / f"{source.stem}.o"
    flags = [
        "-std=c++17",
        "-O1",
        "-g0",
        "-fvisibility=hidden",
        "-fopenmp-simd",
        "-fno-math-errno",
        "-fno-trapping-math",
        "-ffp-contract=off",
    ]
    defines = ["-DGRADAGRAD_NO_CLONES", "-DTORCH_TARGET_VERSION=0x020a000000000000"]
    includes = [f"-I{source.parent}", f"-I{FOLDER / 'include'}"]
    command = [os.environ.get("CXX", "g++"), *flags, *defines, *includes, "-fPIC", "-c", str(source), "-o", str(result)]
    subprocess.run(command, check=True)
    return result


def link(objects: list[Path], to: Path) -> Path:
    """The kernel made of these objects."""
    library = to / "_kernel.abi3.so"
    command = [os.environ.get("CXX", "g++"), "-shared", *map(str, objects), "-o", str(library)]
    subprocess.run([*command, f"-L{FOLDER / 'lib'}", "-ltorch_cpu"], check=True)
    return library


def run_tests(library: Path, tests: list[str]) -> subprocess.CompletedProcess[str]:
    """The kernel's tests on this build of it, until the first failure."""
    environment = {**os.environ, "GRADAGRAD_KERNEL_PATH": str(library), "OMP_NUM_THREADS": "1"}
    files = [str(ROOT / "tests" / test) for test in tests]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:randomly", *files]
    result = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=900)
    if result.returncode not in (0, 1):
        raise SystemExit(f"the tests could not run:\n{result.stdout[-2000:]}{result.stderr[-2000:]}")
    return result


def survives(name: str, file: str, old: str, new: str, common: dict[str, Path]) -> bool:
    """Whether the tests pass with the mutation in place."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        sources = folder / "csrc"
        shutil.copytree(SOURCES, sources)
        text = (sources / file).read_text()
        if old not in text:
            raise SystemExit(f"mutation check is out of date: {name!r} no longer finds {old!r} in {file}.")
        (sources / file).write_text(text.replace(old, new))
        anew = {stem: compile_one(sources / f"{stem}.cpp", folder) for stem in AFFECTED.get(file, DEFAULT)}
        tests = AUTO_TESTS if file.startswith("auto_") else TESTS
        result = run_tests(link(list((common | anew).values()), folder), tests)
    first = next((line for line in result.stdout.splitlines() if line.startswith("FAILED")), "")
    print(f"{'SURVIVED' if result.returncode == 0 else 'killed':9} {name:42} {first[7:110]}", flush=True)
    return result.returncode == 0


def main(words: list[str]) -> int:
    """All mutants, or those whose names contain one of the words."""
    chosen = [m for m in MUTANTS if not words or any(word in m[0] for word in words)]
    with tempfile.TemporaryDirectory() as folder:
        common = {path.stem: compile_one(path, Path(folder)) for path in sorted(SOURCES.glob("*.cpp"))}
        if run_tests(link(list(common.values()), Path(folder)), [*TESTS, *AUTO_TESTS]).returncode:
            raise SystemExit("the tests fail without any mutation.")
        survivors = [mutant[0] for mutant in chosen if survives(*mutant, common)]
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants killed")
    return bool(survivors)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
