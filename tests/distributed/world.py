"""A few processes that stay alive for the whole test session and form a process group for each check."""

import multiprocessing
import multiprocessing.connection
import os
import tempfile
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import distributed as dist

SIZE = 4
SECONDS = 120.0

# One process imports these and is forked for every rank, which saves most of the start-up.
_PRELOAD = ["torch", "torch.distributed.fsdp", "torch.distributed.tensor", "torch.distributed.checkpoint", "gradagrad"]


DIED = "the process died"


class CheckError(AssertionError):
    """A check raised in some rank; the message is its traceback."""


class World:
    """Runs ``check(rank, size, *arguments)`` on some ranks and returns what each of them returned."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(_PRELOAD)
        self._ranks: list[tuple[Any, Connection]] = []

    def run(self, check: Callable[..., Any], size: int, *arguments: Any) -> list[Any]:
        if not self._ranks:
            self._ranks = [self._start(rank) for rank in range(SIZE)]
        with tempfile.TemporaryDirectory() as folder:
            # A store in a file needs no port, and gloo chooses free ones for its own connections.
            store = f"file://{folder}/store"
            for _, connection in self._ranks[:size]:
                connection.send((check, size, store, arguments))
            replies = self._replies(size)
        failures = [f"rank {rank} of {size}:\n{reply}" for rank, (fine, reply) in enumerate(replies) if not fine]
        if failures:
            self.close()  # the others may still wait for the one that failed
            raise CheckError("\n".join(failures))
        return [reply for _, reply in replies]

    def run_sparse(self, check: Callable[..., Any], size: int, *arguments: Any) -> list[Any]:
        """`run` for checks in which gloo adds sparse gradients, up to three times where a process dies.

        torch 2.13's gloo now and then crashes there (SIGSEGV in pt_gloo_runloop), with torch's own SGD as well.
        """
        for _ in range(2):
            try:
                return self.run(check, size, *arguments)
            except CheckError as error:
                if DIED not in str(error):
                    raise
        return self.run(check, size, *arguments)

    def _start(self, rank: int) -> tuple[Any, Connection]:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(rank, theirs), daemon=True, name=f"rank {rank}")
        process.start()
        theirs.close()
        return process, ours

    def _replies(self, size: int) -> list[tuple[bool, Any]]:
        """All replies; once one rank has failed, the others get a moment to fail too."""
        deadline = time.monotonic() + SECONDS
        replies: list[tuple[bool, Any] | None] = [None] * size
        while any(reply is None for reply in replies) and time.monotonic() < deadline:
            waiting = {self._ranks[i][1]: i for i, reply in enumerate(replies) if reply is None}
            for ready in multiprocessing.connection.wait(list(waiting), timeout=max(0.0, deadline - time.monotonic())):
                rank = waiting[ready]  # pyright: ignore[reportArgumentType]
                try:
                    replies[rank] = self._ranks[rank][1].recv()
                except (EOFError, OSError):
                    replies[rank] = (False, DIED)
                if not replies[rank][0]:  # pyright: ignore[reportOptionalSubscript]
                    deadline = min(deadline, time.monotonic() + 3.0)
        return [reply or (False, "no answer in time") for reply in replies]

    def close(self) -> None:
        """Ends every process and waits until it is gone."""
        for process, connection in self._ranks:
            process.kill()
            connection.close()
        for process, _ in self._ranks:
            process.join()
        self._ranks = []


def _serve(rank: int, connection: Connection) -> None:
    """The life of one rank: a check, its result, the next check."""
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    save_coverage = _measured()
    while True:
        try:
            check, size, store, arguments = connection.recv()
        except EOFError:
            return
        try:
            torch.manual_seed(0)
            limit = timedelta(seconds=SECONDS / 2)
            dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size, timeout=limit)
            result = check(rank, size, *arguments)
            dist.barrier()  # nobody tears the group down while another still needs it
            dist.destroy_process_group()
            save_coverage()
            connection.send((True, result))
        except BaseException:
            connection.send((False, traceback.format_exc()))


def _measured() -> Callable[[], None]:
    """Under `make coverage`, measures this process too; saved after every check, since ranks end by being killed."""
    settings = os.environ.get("COVERAGE_PROCESS_START")
    if not settings:
        return lambda: None
    from coverage import Coverage

    measurement = Coverage(config_file=settings, data_suffix=True)
    measurement.start()

    def save() -> None:
        measurement.stop()
        measurement.save()
        measurement.start()

    return save
