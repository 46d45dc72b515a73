"""Training many jobs on all cores: one process per core, each with one thread, since the stacks are small."""

from __future__ import annotations

import contextlib
import multiprocessing
import queue
import signal
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from gradagrad_lab.context import Bar, Context, usable_cores
from gradagrad_lab.errors import OUTPUT, InterruptedRunError, UserError
from gradagrad_lab.records import Record, RecordStore, prepare
from gradagrad_lab.run import Hooks, Job, train

_WORTH_PROCESSES = 5e6  # microseconds of work below which starting processes takes longer than it saves
_PATIENCE = 60.0  # seconds a worker gets, after Ctrl-C, to finish its epoch and write a checkpoint


def missing(jobs: Iterable[Job], records: RecordStore) -> list[Job]:
    """The same jobs without the lanes that already have a record."""
    left: list[Job] = []
    for job in jobs:
        lanes = tuple(lane for lane in job.lanes if records.find(job.config(lane), job.seeds) is None)
        if lanes:
            left.append(Job(job.problem, job.optimizer, lanes, job.seeds, job.epochs))
    return left


def train_missing(jobs: Iterable[Job], context: Context, bar: Bar | None = None, description: str = "Training") -> None:
    """Make sure that every lane of every job has a record; finished ones are not trained again."""
    prepare(context.out)
    left = sorted(missing(jobs, context.records), key=Job.work, reverse=True)
    if not left:
        return
    total = sum(job.work() for job in left)
    with contextlib.ExitStack() as closing:
        if bar is None:
            bar = closing.enter_context(context.progress(total, description))
        workers = min(context.workers or usable_cores(), len(left))
        if total < _WORTH_PROCESSES:
            workers = 1
        if workers == 1:
            _train_here(left, context, bar)
        else:
            _train_in_processes(left, context, bar, workers)


def load(job: Job, records: RecordStore) -> list[Record]:
    """The records of a job that has been trained, lane by lane."""
    found = [records.find(job.config(lane), job.seeds) for lane in job.lanes]
    return [record for record in found if record is not None]


def _checkpoint(out: Path, job: Job) -> Path:
    return out / "partial" / f"{job.key}.pt"


def _finish(job: Job, out: Path, hooks: Hooks) -> list[str]:
    """Train, write the records, then drop the checkpoint: in this order, nothing can be lost."""
    store = RecordStore(out)
    try:
        records = train(job, hooks)
    except (UserError, InterruptedRunError):
        raise
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        for lane in job.lanes:
            store.save(Record(job.config(lane), list(job.seeds), "failed", {}, message=message))
        raise
    keys = [store.save(record).stem for record in records]
    _checkpoint(out, job).unlink(missing_ok=True)
    return keys


def _train_here(jobs: Sequence[Job], context: Context, bar: Bar) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for job in jobs:
            work = job.work()
            if not context.resume:
                _checkpoint(context.out, job).unlink(missing_ok=True)
            with _polite_interrupt() as wanted:
                hooks = Hooks(lambda part, work=work: bar.advance(part * work), wanted, _checkpoint(context.out, job))
                try:
                    context.records.mark_written(_finish(job, context.out, hooks))
                except InterruptedRunError:
                    raise KeyboardInterrupt from None
    finally:
        torch.set_num_threads(threads)


@contextlib.contextmanager
def _polite_interrupt() -> Any:
    """Turn Ctrl-C into a wish that the training loop honours at the end of its epoch; a second one acts at once."""
    asked: list[int] = []

    def note(number: int, frame: Any) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    try:
        previous = signal.signal(signal.SIGINT, note)
    except ValueError:  # not the main thread: signals are someone else's business
        yield lambda: False
        return
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGINT, previous)


def _work(number: int, jobs: Any, reports: Any, stop: Any, out: Path) -> None:
    """A worker process: takes jobs until there are none, reports progress and ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    torch.set_num_threads(1)
    while not stop.is_set():
        task = jobs.get()
        if task is None:
            break
        job, work = task
        hooks = Hooks(
            lambda part, work=work: reports.put(("progress", part * work)), stop.is_set, _checkpoint(out, job)
        )
        try:
            reports.put(("done", _finish(job, out, hooks)))
        except InterruptedRunError:
            break
        except Exception as error:
            reports.put(
                ("error", error if isinstance(error, UserError) else RuntimeError(f"{type(error).__name__}: {error}"))
            )
            break
    reports.put(("left", number))


def _train_in_processes(jobs: Sequence[Job], context: Context, bar: Bar, workers: int) -> None:
    # "spawn": forking a process whose torch threads are running can hang.
    spawning = multiprocessing.get_context("spawn")
    tasks, reports, stop = spawning.Queue(), spawning.Queue(), spawning.Event()
    for job in jobs:
        if not context.resume:
            _checkpoint(context.out, job).unlink(missing_ok=True)
        tasks.put((job, job.work()))
    for _ in range(workers):
        tasks.put(None)
    processes = [
        spawning.Process(target=_work, args=(number, tasks, reports, stop, context.out), daemon=True)
        for number in range(workers)
    ]
    for process in processes:
        process.start()
    try:
        _listen(processes, reports, context, bar)
    except BaseException:
        stop.set()
        _wait(processes, reports)
        raise
    finally:
        for process in processes:
            if process.is_alive():
                process.terminate()
            process.join()
        # Jobs nobody took would keep the queue's feeder thread, and with it this process, alive.
        tasks.cancel_join_thread()


def _listen(processes: Sequence[Any], reports: Any, context: Context, bar: Bar) -> None:
    working = set(range(len(processes)))
    while working:
        try:
            kind, content = reports.get(timeout=1.0)
        except queue.Empty:
            if any(not processes[number].is_alive() for number in working):
                _raise_for_dead(processes, working, reports)
            continue
        if kind == "progress":
            bar.advance(content)
        elif kind == "done":
            context.records.mark_written(content)
        elif kind == "error":
            raise content
        else:
            working.discard(content)


def _raise_for_dead(processes: Sequence[Any], working: set[int], reports: Any) -> None:
    # Its last words may still be under way in the queue: look once more before calling it dead.
    time.sleep(0.5)
    if not reports.empty():
        return
    codes = [processes[number].exitcode for number in working if not processes[number].is_alive()]
    raise UserError(
        f"A worker process ended before its work was done (exit code {codes[0]}; out of memory, or killed); "
        "run the same command again, finished runs are kept.",
        OUTPUT,
    )


def _wait(processes: Sequence[Any], reports: Any) -> None:
    """Let the workers write their checkpoints, emptying their reports so that none blocks on a full pipe."""
    deadline = time.monotonic() + _PATIENCE
    while any(process.is_alive() for process in processes) and time.monotonic() < deadline:
        with contextlib.suppress(queue.Empty):
            reports.get(timeout=0.2)
