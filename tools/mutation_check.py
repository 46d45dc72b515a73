"""Breaks the update rule in known ways, one at a time, and shows that the tests notice each.

Works on a copy of the library in a temporary folder; the tree is never touched. Exit code 1 if a mutant survives.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# name, file below src/gradagrad, what stands there, what the mutant has instead
MUTANTS = [
    ("the sign of ρ flipped", "rule.py", "v = gg - agreement", "v = gg + agreement"),
    ("the restricted-increase clip dropped", "rule.py", "factor = ops.minimum(by_sum, by_clip)", "factor = by_sum"),
    ("α for α' in the step", "rule.py", "new_growth, new_alpha = after", "new_growth, new_alpha = after[0], alpha"),
    ("the cap on γ removed", "rule.py", "ops.minimum(growth * factor, cap)", "growth * factor"),
    ("no AdaGrad at the cap", "rule.py", "v = ops.where(ops.less(growth, cap), v, gg)", "pass"),
    ("α shrinks where v < 0", "rule.py", "alpha + ops.maximum(v, 0.0)", "alpha + v"),
    ("the fixed clip ignored", "rule.py", "factor = ops.minimum(factor, s.growth_limit)", "pass"),
    ("G∞ ignored", "rule.py", "v = ops.where(first, bounded, v)", "pass"),
    ("momentum without the metric's change", "rule.py", "(new_root / root) * (growth / new_growth)", "1.0"),
    ("projection leaves m alone", "rule.py", "new_m = new_m + (z - p) * (metric * (1.0 - s.beta))", "pass"),
    ("lazy ignored", "rule.py", "new_m = ops.where(touched, new_m, m)", "pass"),
    ("eps left out", "rule.py", "ops.sqrt(ops.maximum(new_alpha, ops.tiny)) + s.eps", "new_alpha**0.5"),
    ("stale momentum kept", "steps/sparse.py", '_forget(batch, i, state.get("last_rows"))', "pass"),
    ("auto: never seen elements count", "auto/rule.py", "seen = ops.less(-B, 0.0)", "seen = ops.less(-B, 1.0)"),
    ("auto: agreement of either sign", "auto/rule.py", "before.agreement + P,", "before.agreement + abs(P),"),
    ("auto: disagreement for agreement", "auto/rule.py", "-before.disagreement - P", "-before.disagreement + P"),
    ("auto: the ceiling r_max removed", "auto/rule.py", "ops.minimum(q * q - 1.0, s.r_max)", "q * q - 1.0"),
    ("auto: R̂ always grows", "auto/rule.py", "ops.where(grows, 0.0, ops.max", "ops.where(False, 0.0, ops.max"),
    ("auto: evidence is not used up", "auto/rule.py", "ops.where(trusts, 1.0 + r, ops.sqrt(1.0 + r))", "1.0"),
    ("auto: start-up never ends", "auto/rule.py", "0.0, before.starting)", "before.starting, before.starting)"),
    ("auto: certified at once", "auto/rule.py", "ops.where(passes, EXPIRY,", "ops.where(True, EXPIRY,"),
    ("auto: certified for good", "auto/rule.py", "EXPIRY = 1000.0", "EXPIRY = 1e9"),
    ("auto: the window forgets nothing", "auto/rule.py", "certificate * (1.0 - 1.0 / WINDOW)", "certificate"),
    ("auto: large γ like others", "auto/rule.py", "SURE = 3.0", "SURE = 0.0"),
    ("auto: no blind start", "auto/rule.py", "BLIND_GAMMA = 1e-5", "BLIND_GAMMA = 0.0"),
    ("auto: unweighted squares", "auto/rule.py", "B + g * g * pace.weight", "B + g * g"),
    ("auto: (1 − β) left out", "auto/rule.py", "g * (1.0 - pace.momentum)", "g"),
    ("auto: zeros move along momentum", "auto/rule.py", "ops.where(moves, mean, g)", "mean"),
    ("auto: an average of equal weights", "auto/rule.py", "(POWER + 1.0) / (after.step + POWER)", "1.0 / after.step"),
    ("auto: untouched rows' averages rest", "auto/rule.py", "((j + float(t)) / (k + float(t)))", "1.0"),
]  # fmt: skip
TESTS = ["test_faithful.py", "test_adagrad.py", "test_properties.py", "test_sparse.py", "test_precision.py"]
AUTO_TESTS = ["auto/test_faithful.py", "auto/test_sparse.py"]


def survives(name: str, file: str, old: str, new: str) -> bool:
    """Whether the tests pass with the mutation in place."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "gradagrad"
        shutil.copytree(ROOT / "src" / "gradagrad", library)
        path = library / file
        text = path.read_text()
        if text.count(old) < 1:
            raise SystemExit(f"mutation check is out of date: {name!r} no longer finds {old!r} in {file}.")
        path.write_text(text.replace(old, new))
        environment = {**os.environ, "PYTHONPATH": folder, "OMP_NUM_THREADS": "1"}
        tests = [str(ROOT / "tests" / test) for test in (AUTO_TESTS if file.startswith("auto/") else TESTS)]
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:randomly", *tests]
        result = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=600)
        if result.returncode not in (0, 1):
            raise SystemExit(f"the tests could not run for {name!r}:\n{result.stdout[-2000:]}{result.stderr[-2000:]}")
        first = next((line for line in result.stdout.splitlines() if line.startswith("FAILED")), "")
        print(f"{'SURVIVED' if result.returncode == 0 else 'killed':9} {name:45} {first[7:110]}", flush=True)
        return result.returncode == 0


def main(words: list[str]) -> int:
    """All mutants, or those whose names contain one of the words."""
    chosen = [m for m in MUTANTS if not words or any(word in m[0] for word in words)]
    survivors = [mutant[0] for mutant in chosen if survives(*mutant)]
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants killed")
    return bool(survivors)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
