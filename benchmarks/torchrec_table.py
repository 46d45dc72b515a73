"""A step on one table beside FBGEMM's fused RowWiseAdagrad: forward, backward and step, in turn and in one process.

`make torchrec` makes the environment; then: .venv/torchrec/bin/python -m benchmarks.torchrec_table
"""

# pyright: reportMissingImports=false

import time
from functools import partial
from resource import RUSAGE_SELF, getrusage

import torch
from torch import distributed as dist
from torchrec import KeyedJaggedTensor

from examples.torchrec_dlrm import Tables, sharded
from gradagrad import GradaGrad
from gradagrad.integrations.torchrec import optimizer_for

ROWS, WIDTH, TOUCHED, STEPS = 1_000_000, 16, 4096, 300


def main() -> None:
    """Prints the time of our step, FBGEMM's and their ratio, by threads and ids in a bag, and the growth of memory."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    tables = [Tables((ROWS,), WIDTH) for _ in range(2)]
    models = [sharded(t, t, "bags", kernel, 0.01) for t, kernel in zip(tables, ("dense", "fused"), strict=True)]
    by_rows = partial(GradaGrad, lr=0.01, granularity="row", lazy=True)
    ours = optimizer_for(models[0], lambda params: by_rows(params.values()), in_lookup=True)
    touched = [torch.randperm(ROWS)[:TOUCHED].clone() for _ in range(50)]
    before = getrusage(RUSAGE_SELF).ru_maxrss
    for threads, each in ((1, 1), (1, 8), (2, 1), (2, 8)):
        torch.set_num_threads(threads)
        gradient, times = torch.randn(TOUCHED // each, WIDTH), torch.empty(STEPS, 2, dtype=torch.float64)
        lengths = torch.full((TOUCHED // each,), each)
        batches = [KeyedJaggedTensor(["field0"], rows, lengths=lengths) for rows in touched]
        for k in range(STEPS):
            for i in (k % 2, 1 - k % 2):
                begin = time.perf_counter()
                models[i].module.bags(batches[k % len(batches)]).values().backward(gradient)
                (ours, models[1].fused_optimizer)[i].step()
                times[k, i] = time.perf_counter() - begin
        (own, other), (least, least_other) = (1e6 * times.median(0).values).tolist(), (1e6 * times.amin(0)).tolist()
        print(
            f"{threads} threads, {each} ids in a bag: median {own:.0f} / {other:.0f} µs = {own / other:.2f}, "
            f"minimum {least:.0f} / {least_other:.0f} µs = {least / least_other:.2f}"
        )
    print(f"peak memory grew by {(getrusage(RUSAGE_SELF).ru_maxrss - before) / 1024:.0f} MiB in these steps")


if __name__ == "__main__":
    main()
