"""Starts scripts as a user does, with a time limit, and leaves no process behind."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def python(*arguments: str | Path, seconds: float = 120.0) -> str:
    """Runs this Python with the arguments and returns what it printed; fails with all of it otherwise."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src"), "CUDA_VISIBLE_DEVICES": ""}
    environment |= {"GLOO_SOCKET_IFNAME": "lo", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}  # see train_fsdp2.py
    process = subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )
    with process:
        try:
            output, _ = process.communicate(timeout=seconds)
        except BaseException as error:
            process.terminate()  # torchrun ends its ranks, which are in sessions of their own, on this signal only
            output, _ = process.communicate()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            raise AssertionError(f"not done after {seconds} s:\n{output}") from None
    assert process.returncode == 0, output
    return output


def torchrun(ranks: int, *arguments: str | Path, restarts: int = 0) -> str:
    """As `python`, on some ranks; the rendezvous chooses a free port."""
    options = ["--standalone", f"--nproc-per-node={ranks}", f"--max-restarts={restarts}", "--monitor-interval=0.2"]
    return python("-m", "torch.distributed.run", *options, *arguments)
