"""The contents of an output folder."""

import json
from pathlib import Path
from typing import Any


def recorded(out: Path) -> dict[str, Any]:
    """All runs by key."""
    files = sorted((out / "records").glob("*.json"))
    return {key: run for file in files for key, run in json.loads(file.read_text("utf-8"))["runs"].items()}
