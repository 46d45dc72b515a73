"""Runs a training script and kills one rank for real: first in the middle of training, then in the middle of a save.

    torchrun ... killer.py SCRIPT ARGUMENTS...

torchrun counts the restarts. The first run dies in a step, the second in a save, and the third runs to its end.
"""

import os
import runpy
import signal
import sys
from pathlib import Path
from typing import Any

from torch.distributed.checkpoint import FileSystemWriter
from torch.optim.optimizer import register_optimizer_step_post_hook

FATAL_STEP = 14
FATAL_SAVE = 1
LIFE = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
VICTIM = 1


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Counter:
    """Calls `die` the n-th time it is told of an event."""

    def __init__(self, n: int) -> None:
        self.left = n

    def __call__(self, *_: object) -> None:
        self.left -= 1
        if self.left == 0:
            die()


if int(os.environ["RANK"]) == VICTIM:
    if LIFE == 0:
        register_optimizer_step_post_hook(Counter(FATAL_STEP))
    elif LIFE == 1:
        count = Counter(FATAL_SAVE)
        write_data = FileSystemWriter.write_data

        def write_half(self: Any, plan: Any, planner: Any) -> Any:
            future = write_data(self, plan, planner)
            future.wait()
            if count.left == 1:
                for file in Path(self.path).glob(f"__{VICTIM}_*"):
                    os.truncate(file, file.stat().st_size // 2)
            count()
            return future

        FileSystemWriter.write_data = write_half

sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
