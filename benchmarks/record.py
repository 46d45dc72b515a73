"""The report of a benchmark, written after every table, so that an interruption loses one table at most."""

import json
import os
import platform
import subprocess
from datetime import date
from pathlib import Path
from typing import Any

import torch

from gradagrad.kernel.load import kernel_status


class Record:
    """The report of one run. ``resume`` continues an unfinished one of the same kind."""

    def __init__(self, path: Path, *, full: bool, resume: bool) -> None:
        self.path = path
        head = {
            "torch": torch.__version__,
            "kernel": kernel_status().loaded,
            "machine": platform.processor() or platform.machine(),
            "cores": os.cpu_count() or 1,
            "full": full,
        }
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
        self.report: dict[str, Any] = {**head, "commit": commit, "date": str(date.today()), "tables": {}}
        if resume and path.exists():
            found = json.loads(path.read_text())
            if "tables" not in found or any(found.get(key) != value for key, value in head.items()):
                raise SystemExit(f"--resume: {path} is from another kind of run. Omit --resume to start again.")
            self.report = found

    def has(self, name: str) -> bool:
        return name in self.report["tables"]

    def add(self, name: str, kind: str, rows: list[dict[str, Any]], seconds: float) -> None:
        """``kind`` is "results" for tables beside peers, "scaling" for growth."""
        load = os.getloadavg()[0]
        self.report["tables"][name] = {"kind": kind, "seconds": seconds, "load": load, "rows": rows}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        scratch = self.path.with_suffix(".part")
        scratch.write_text(json.dumps(self.report, indent=1))
        scratch.replace(self.path)


def rows_of(report: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [row for table in report["tables"].values() if table["kind"] == kind for row in table["rows"]]
