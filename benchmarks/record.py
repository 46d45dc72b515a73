"""Records of benchmarks: finished runs with what they were made with, written after each, and the search of a rate."""

import json
import os
import time
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from gradagrad.kernel.load import kernel_status
from gradagrad_lab.records import git_hash, write_atomically

PACKAGES = ("torch", "scikit-learn", "schedulefree", "prodigyopt", "transformers")


def _made() -> dict[str, str]:
    """When, from which commit and with what this process trains. "+": files had changes beside the commit."""
    packages = [name for name in PACKAGES if find_spec(name.replace("scikit-learn", "sklearn"))]
    here = {
        "threads": str(torch.get_num_threads()),
        "cores": str(os.cpu_count()),
        "kernel": str(kernel_status().loaded),
    }
    made = {"date": time.strftime("%Y-%m-%d"), "commit": git_hash()}
    return {**made, **here, **{name: version(name) for name in packages}}


class RunFile:
    """Finished runs by key, in a JSON file with a line for each. Its notes say what they were made with."""

    def __init__(self, path: Path) -> None:
        self.path = path
        content = json.loads(path.read_text("utf-8")) if path.exists() else {}
        self.made: list[dict[str, str]] = content.get("made", [])
        self.runs: dict[str, dict[str, Any]] = content.get("runs", {})

    def note(self) -> int:
        """The place of this process's note, which a run names."""
        if (made := _made()) not in self.made:
            self.made.append(made)
        return self.made.index(made)

    def save(self) -> None:
        lines = [f"{json.dumps(key, ensure_ascii=False)}: {json.dumps(run)}" for key, run in sorted(self.runs.items())]
        text = f'{{"made": {json.dumps(self.made)},\n"runs": {{\n' + ",\n".join(lines) + "\n}}\n"
        write_atomically(self.path, text.encode())

    def made_with(self) -> str:
        notes = {f"{name} {note[name]}" for note in self.made for name in note}
        return ", ".join(sorted(notes)) or "nothing"


def rate(place: int) -> float:
    """The learning rate of a place on the grid of half-decades."""
    return float(f"{10 ** (place / 2):.3g}")


def best_place(losses: dict[int, float], start: Sequence[int], grid: range) -> tuple[int | None, list[int]]:
    """The place with the least loss, or None and what is to be tried first: places to start from, then neighbours."""
    if missing := [place for place in start if place not in losses]:
        return None, missing
    best = min(sorted(losses), key=losses.__getitem__)
    missing = [place for place in (best - 1, best + 1) if place in grid and place not in losses]
    return (None, missing) if missing else (best, [])
