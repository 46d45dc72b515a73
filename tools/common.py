"""Shared parts of the tools: processes of their own, and state that can be compared."""

import os
import traceback
from collections.abc import Callable
from typing import Any

import torch


def forked(body: Callable[[], object]) -> int:
    """Forks a child that runs only this; returns its process id."""
    if child := os.fork():
        return child
    code = 1
    try:
        body()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def leaves(value: Any, name: str = "") -> dict[str, Any]:
    """Flattens nested dictionaries and lists, with tensors as bytes."""
    if isinstance(value, dict):
        return {n: leaf for key, part in value.items() for n, leaf in leaves(part, f"{name}/{key}").items()}
    if isinstance(value, list):
        return {n: leaf for i, part in enumerate(value) for n, leaf in leaves(part, f"{name}/{i}").items()}
    if isinstance(value, torch.Tensor):
        return {name: (value.dtype, tuple(value.shape), value.contiguous().view(-1).view(torch.uint8).tolist())}
    return {name: value}
