"""Training on all cores with joblib: one process for each core, each with one thread, kept from study to study."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError

from gradagrad_lab.errors import OUTPUT, UserError
from gradagrad_lab.records import Record, prepare
from gradagrad_lab.train import train

if TYPE_CHECKING:
    from gradagrad_lab.context import Context
    from gradagrad_lab.study import Run

_WORTH_PROCESSES = 5.0  # seconds of work below which starting processes takes longer than it saves


def train_missing(context: Context, wanted: Iterable[Run], description: str) -> None:
    """Trains every run that has no record. Finished records are kept whatever happens."""
    prepare(context.out)
    wanted = list(dict.fromkeys(wanted))
    missing = {run for run in wanted if context.records.find(run) is None}
    for error_text in context.records.error_texts():
        context.console.print(error_text, highlight=False, markup=False)
    if not missing:
        return
    groups = sorted(_missing_groups(wanted, missing), key=_cost, reverse=True)  # the longest first
    with context.progress(sum(map(_cost, groups)), description) as bar:
        try:
            for place, records in _trained(groups, context.cores):
                context.records.add(*records)
                bar.advance(_cost(groups[place]))
        except TerminatedWorkerError as error:
            raise UserError(
                "A worker process ended before its work was done (out of memory, or killed). Run the same command "
                "again; finished runs are kept.",
                OUTPUT,
            ) from error
        finally:
            context.records.write()


def _trained(groups: Sequence[Sequence[Run]], cores: int) -> Iterator[tuple[int, list[Record]]]:
    workers = min(cores, len(groups))
    if workers == 1 or sum(map(_cost, groups)) < _WORTH_PROCESSES:
        yield from (_work(*one) for one in enumerate(groups))
        return
    with parallel_config("loky", inner_max_num_threads=1):
        # In batches, finished groups would wait for unfinished ones. Arrays are copied, since torch refuses maps.
        options: Any = {"return_as": "generator_unordered", "batch_size": 1, "max_nbytes": None}
        found: Any = Parallel(workers, **options)(delayed(_work)(*one) for one in enumerate(groups))
        yield from found


def _work(place: int, group: Sequence[Run]) -> tuple[int, list[Record]]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return place, train(group)
    finally:
        torch.set_num_threads(threads)


def _cost(group: Sequence[Run]) -> float:
    return group[0].problem.cost(group)


def _groups(runs: Sequence[Run]) -> list[list[Run]]:
    """The runs in the groups that their problem trains together."""
    by_problem: dict[int, list[Run]] = {}
    for run in runs:
        by_problem.setdefault(id(run.problem), []).append(run)
    return [group for own in by_problem.values() for group in own[0].problem.together(own)]


def _missing_groups(wanted: Sequence[Run], missing: Container[Run]) -> list[list[Run]]:
    """The runs that are still to be trained, in the groups that an uninterrupted command would use, because the size of
    a stack can change the last digits. If some runs of a group are finished, the others form a group."""
    groups = _groups(wanted)
    whole = [group for group in groups if all(run in missing for run in group)]
    rests = [run for group in groups if group not in whole for run in group if run in missing]
    return whole + _groups(rests)
