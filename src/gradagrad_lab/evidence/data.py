"""The data: MNIST and Fashion-MNIST, Python's own sources, and its docstrings, each in three parts.

The validation part is taken from what the data set calls training, and is all that a learning rate is chosen by.
"""

import ast
import functools
import random
import re
import sysconfig
from collections import Counter
from pathlib import Path

import torch
from torch import Tensor

from gradagrad_lab.evidence.models import LETTERS

PACKAGES = ("asyncio", "email", "http", "idlelib", "importlib", "logging", "multiprocessing", "tkinter", "unittest",
            "xml")  # fmt: skip
LIBRARY = Path(sysconfig.get_paths()["stdlib"])


@functools.cache
def sources() -> dict[str, Tensor]:
    """Python's standard library, character by character. Files of validation and test are not trained on."""
    files = sorted(LIBRARY.glob("*.py")) + sorted(LIBRARY.glob("[a-z]*/*.py"))
    files = [file for file in files if not {"site-packages", "dist-packages", "test"} & set(file.parts)]
    texts = {"train": b"", "validation": b"", "test": b""}
    for number, file in enumerate(files):
        texts[{3: "validation", 7: "test"}.get(number % 10, "train")] += file.read_bytes()
    coded = {part: torch.frombuffer(bytearray(text), dtype=torch.uint8) for part, text in texts.items()}
    return {part: text.clamp_max(LETTERS - 1).long() for part, text in coded.items()}


def _docstrings(package: str) -> set[str]:
    files = [file for file in (LIBRARY / package).rglob("*.py") if "idle_test" not in file.parts]
    nodes = [node for file in files if "test" not in file.stem for node in ast.walk(ast.parse(file.read_bytes()))]
    own = [x for x in nodes if isinstance(x, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)]
    found = {" ".join((ast.get_docstring(node) or "").split()) for node in own}
    hidden = re.compile(rf"\w*({'|'.join(PACKAGES)}|tk|idle)\w*", re.IGNORECASE)
    return {text for text in (hidden.sub("it", text) for text in found) if len(text) >= 40}


@functools.cache
def docstrings() -> dict[str, tuple[list[str], Tensor]]:
    """Docstrings, and the one of ten packages that each is from. A docstring of two packages is left out."""
    by_package = [_docstrings(package) for package in PACKAGES]
    packages = Counter(text for texts in by_package for text in texts)
    rows = [(text, number) for number, own in enumerate(by_package) for text in sorted(own) if packages[text] == 1]
    random.Random(28).shuffle(rows)
    parts = {"test": rows[:500], "validation": rows[500:800], "train": rows[800:]}
    return {part: ([text for text, _ in own], torch.tensor([name for _, name in own])) for part, own in parts.items()}
