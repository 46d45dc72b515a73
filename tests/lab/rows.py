"""Criteo's text, made or found, for the tests of its reader."""

import os
from pathlib import Path

import numpy as np
import pytest

from gradagrad_lab.data.clicks.stream import raw_block

REAL = "criteo/train_first1999.txt"
DATA = Path(os.environ.get("GRADAGRAD_DATA") or "/nonexistent")


def real_rows() -> Path:
    """The 1,999 real rows, which are never part of the repository."""
    path = DATA / REAL
    if not path.is_file():
        pytest.skip(f"needs the first real rows of Criteo: set GRADAGRAD_DATA to a folder with {REAL}")
    return path


def text_rows(count: int, seed: int = 0) -> list[bytes]:
    """Lines in Criteo's format, from the synthetic stream."""
    raw = raw_block(seed, 0)
    lines = []
    for row in range(count):
        integers = ["" if gone else str(value) for value, gone in zip(raw.integers[row], raw.missing[row], strict=True)]
        ids = ["" if value == 0 else f"{(int(value) * 2654435761) % 2**32:08x}" for value in raw.ids[row]]
        lines.append("\t".join([str(int(raw.clicks[row])), *integers, *ids]).encode())
    return lines


def parsed_slowly(lines: list[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Clicks, integers (blank: None → 0) and ids (blank: −1), field by field with Python's own parsers."""
    fields = [line.rstrip(b"\r\n").split(b"\t") for line in lines]
    clicks = np.array([int(row[0]) for row in fields])
    integers = np.array([[int(value) if value else 0 for value in row[1:14]] for row in fields])
    ids = np.array([[int(value, 16) if value else -1 for value in row[14:]] for row in fields])
    return clicks, integers, ids
