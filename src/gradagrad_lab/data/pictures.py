"""MNIST and Fashion-MNIST in three parts. The validation part is taken from what the data set calls training."""

import functools
import gzip
import hashlib
import os
from pathlib import Path

import torch
from torch import Tensor

from gradagrad_lab.data import cache_folder, folders
from gradagrad_lab.data.fetch import keep, read_url
from gradagrad_lab.errors import DATA, UserError

FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
SUMS = {  # sha256 of each unpacked file
    "mnist": (
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    "fashion-mnist": (
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
}
ADDRESSES = {"mnist": "https://ossci-datasets.s3.amazonaws.com/mnist"}
ADDRESSES["fashion-mnist"] = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion"
Pair = tuple[Tensor, Tensor]


def _unpacked(name: str, file: str, expected: str, data_dir: Path | None) -> bytes:
    """One file from GRADAGRAD_DATA, the cache, Debian's folder or a download, checked against its sum."""
    homes = [folder / name / file for folder in (*folders(data_dir), Path("/usr/share/datasets"))]
    found = next((place for home in homes for place in (home.with_suffix(".gz"), home) if place.exists()), None)
    if found is None and os.environ.get("GRADAGRAD_OFFLINE", "0") not in ("", "0"):
        raise UserError(f"{name} is in none of the data folders, and GRADAGRAD_OFFLINE is set.", DATA)
    try:
        content = found.read_bytes() if found else read_url(f"{ADDRESSES[name]}/{file}.gz")
    except OSError as error:
        raise UserError(
            f"{name} cannot be read ({error}). Let GRADAGRAD_DATA name a folder with a copy.", DATA
        ) from None
    plain = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    if (got := hashlib.sha256(plain).hexdigest()) != expected:
        raise UserError(f"{found or ADDRESSES[name]}: {file} is not the expected file: its sha256 is {got}.", DATA)
    if found is None:
        keep(cache_folder() / name / f"{file}.gz", content, ADDRESSES[name])
    return plain


@functools.cache
def pictures(name: str, data_dir: Path | None = None) -> dict[str, Pair]:
    """Pictures with mean 0 and deviation 1, and their classes."""
    raw = [_unpacked(name, file, expected, data_dir) for file, expected in zip(FILES, SUMS[name], strict=True)]
    views = [torch.frombuffer(bytearray(content), dtype=torch.uint8) for content in raw]
    train, test = (views[place][16:].view(-1, 1, 28, 28).float() / 255 for place in (0, 2))
    names, test_names = (views[place][8:].long() for place in (1, 3))
    train, test = ((rows - train.mean()) / train.std() for rows in (train, test))
    held, kept = torch.randperm(len(names), generator=torch.Generator().manual_seed(28)).tensor_split([5_000])
    return {"train": (train[kept], names[kept]), "validation": (train[held], names[held]), "test": (test, test_names)}
