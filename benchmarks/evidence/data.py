"""The data: MNIST and Fashion-MNIST, Python's own sources, and its docstrings, each in three parts.

The validation part is taken from what the data set calls training, and is all that a learning rate is chosen by.
"""

import ast
import functools
import gzip
import hashlib
import os
import random
import re
import sysconfig
import urllib.request
from collections import Counter
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.evidence.models import LETTERS
from gradagrad_lab.data import cache_folder, folders
from gradagrad_lab.data.fetch import keep

FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
SUMS = {  # how sha256 of each unpacked file begins
    "mnist": ("ba891046e6505d7a", "65a50cbbf4e906d7", "0fa7898d509279e4", "ff7bcfd416de3373"),
    "fashion-mnist": ("c59f468a2f672dc8", "bad3541b69d91243", "5b4141f0afbad91e", "0402a96d92fd2663"),
}
ADDRESSES = {"mnist": "https://ossci-datasets.s3.amazonaws.com/mnist"}
ADDRESSES["fashion-mnist"] = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
PACKAGES = ("asyncio", "email", "http", "idlelib", "importlib", "logging", "multiprocessing", "tkinter", "unittest",
            "xml")  # fmt: skip
LIBRARY = Path(sysconfig.get_paths()["stdlib"])
Pair = tuple[Tensor, Tensor]


def _unpacked(name: str, file: str, expected: str) -> bytes:
    """One file from GRADAGRAD_DATA, the cache, Debian's folder or a download, checked against its sum."""
    homes = [folder / name / file for folder in (*folders(None), Path("/usr/share/datasets"))]
    found = next((place for home in homes for place in (home.with_suffix(".gz"), home) if place.exists()), None)
    if found is None and os.environ.get("GRADAGRAD_OFFLINE", "0") not in ("", "0"):
        raise SystemExit(f"{name} is in none of the data folders, and GRADAGRAD_OFFLINE is set.")
    try:
        content = found.read_bytes() if found else urllib.request.urlopen(f"{ADDRESSES[name]}/{file}.gz").read()
    except OSError as error:
        raise SystemExit(f"{name} cannot be read ({error}). Let GRADAGRAD_DATA name a folder with a copy.") from None
    plain = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    if not (got := hashlib.sha256(plain).hexdigest()).startswith(expected):
        raise SystemExit(f"{found or ADDRESSES[name]}: {file} is not the expected file: its sha256 is {got}.")
    if found is None:
        keep(cache_folder() / name / f"{file}.gz", content, ADDRESSES[name])
    return plain


@functools.cache
def pictures(name: str) -> dict[str, Pair]:
    """Pictures with mean 0 and deviation 1, and their classes."""
    raw = [_unpacked(name, file, expected) for file, expected in zip(FILES, SUMS[name], strict=True)]
    views = [torch.frombuffer(bytearray(content), dtype=torch.uint8) for content in raw]
    train, test = (views[place][16:].view(-1, 1, 28, 28).float() / 255 for place in (0, 2))
    names, test_names = (views[place][8:].long() for place in (1, 3))
    train, test = ((rows - train.mean()) / train.std() for rows in (train, test))
    held, kept = torch.randperm(len(names), generator=torch.Generator().manual_seed(28)).tensor_split([5_000])
    return {"train": (train[kept], names[kept]), "validation": (train[held], names[held]), "test": (test, test_names)}


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
    """Docstrings, and which of ten packages of Python's library each is from. Those of two packages are left out."""
    by_package = [_docstrings(package) for package in PACKAGES]
    packages = Counter(text for texts in by_package for text in texts)
    rows = [(text, number) for number, own in enumerate(by_package) for text in sorted(own) if packages[text] == 1]
    random.Random(28).shuffle(rows)
    parts = {"test": rows[:500], "validation": rows[500:800], "train": rows[800:]}
    return {part: ([text for text, _ in own], torch.tensor([name for _, name in own])) for part, own in parts.items()}
