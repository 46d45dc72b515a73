"""``python -m gradagrad``: which versions these are, whether compiled steps are in use; ``gpu`` tries them there."""

import importlib.metadata
import importlib.util
import os
import platform
import sys

import torch

import gradagrad
from gradagrad.kernel.load import build_record, kernel_status
from gradagrad.triton import check


def lines() -> list[str]:
    """Versions, machine and kernel, one per line."""
    python = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    threads = f"{torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}"
    table = {
        "gradagrad": gradagrad.__version__,
        "python": python,
        "torch": f"{torch.__version__}, {threads}",
        "kernel": str(kernel_status()),
    }
    record = build_record()
    if kernel_status().loaded and record.get("kernel") and "GRADAGRAD_KERNEL_PATH" not in os.environ:
        table["built by"] = f"{record['compiler']}, with torch {record['torch']}"
    if torch.cuda.is_available():
        table["gpu"] = ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
    table["triton"] = str(check.triton_status())
    if all(importlib.util.find_spec(name) for name in ("jax", "optax")):
        table["jax"] = f"{importlib.metadata.version('jax')}, with optax {importlib.metadata.version('optax')}"
    return [f"{name:10} {value}" for name, value in table.items()]


def main() -> None:
    """Prints them; ``--version`` prints the version alone, ``gpu`` checks and times the steps on a GPU."""
    if sys.argv[1:] == ["gpu"]:
        raise SystemExit(check.main())
    print(f"gradagrad {gradagrad.__version__}" if sys.argv[1:] == ["--version"] else "\n".join(lines()))


if __name__ == "__main__":
    main()
