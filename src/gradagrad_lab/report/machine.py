"""The machine and the versions that produced a result, in words."""

import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

from gradagrad_lab.context import usable_cores
from gradagrad_lab.records import git_hash, versions


def describe() -> dict[str, str]:
    """Name → value, the most important first."""
    cores = usable_cores()
    facts = {
        "Processor": f"{_processor()}, {cores} core{'s' if cores != 1 else ''}",
        "Memory": _memory(),
        "System": f"{platform.system()} {platform.machine()}",
    }
    facts |= {"Python" if name == "python" else name: value for name, value in versions().items()}
    facts |= {name: version(name) for name in ("scipy", "matplotlib")}
    facts["Commit"] = git_hash()
    return {name: value for name, value in facts.items() if value}


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine() or "unknown processor"


def _memory() -> str:
    if sys.platform == "win32":
        return ""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return ""
    return f"{total / 2**30:.1f} GiB"
