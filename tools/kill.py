"""Kills trainings at random moments, resumes them, and checks that each ends bit for bit where an undisturbed one ends.

    python tools/kill.py                        a few kills of each kind
    python tools/kill.py --kills 200            this many in all
    python tools/kill.py figure4 --seed 7       one kind, other moments

SIGKILL, which nothing can catch, goes to all processes of the training at once. With several workers or ranks it often
hits one of them first. It comes at a random moment of a random round after the process has started. After each kill
the tool counts how many rounds the process trained, which records and checkpoints exist, and which files the kill cut
off. Checkpoints are saved after every round instead of every few seconds, so that many kills fall into a save.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from multiprocessing.sharedctypes import RawValue
from pathlib import Path
from typing import Any

import torch
from common import forked
from kill_trainings import KINDS, Kind

MAX_KILLS = 20  # per training; after that it may end
MODULES = "modules.txt"
SHARE = 0.1  # of all rounds, the most that a process may train before it is killed


def shared_counter() -> Any:
    """A number that processes share, without a lock that a killed process would keep."""
    return RawValue("q", 0)


@contextmanager
def life(kind: Kind, out: Path, counter: Any) -> Iterator[list[int]]:
    """Starts processes that train in a folder, each in its own session, and kills those that remain at the end."""

    def count() -> None:
        counter.value += 1

    def train() -> None:
        os.setsid()
        log = os.open(out / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        kind.train(out, count)
        (out / MODULES).write_text("\n".join(sys.modules))

    children = [forked(train) for _ in range(kind.trainers)]
    try:
        yield children
    finally:
        for child in children:
            _kill(child)


def _kill(child: int) -> None:
    for send in (os.killpg, os.kill):  # a child that has not called setsid has no group yet
        with suppress(ProcessLookupError, PermissionError):
            send(child, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(child, 0)


def one_of(children: list[int], dice: random.Random) -> int | None:
    """A random worker or rank of these processes, if they have any."""
    found = [line for child in children for line in Path(f"/proc/{child}/task/{child}/children").read_text().split()]
    return int(dice.choice(found)) if found else None


def ended(children: list[int]) -> list[int]:
    """Exit codes of the children that have ended, which are removed from the list."""
    codes = []
    for child in list(children):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            children.remove(child)
            codes.append(os.waitstatus_to_exitcode(status))
    return codes


@dataclass
class Tally:
    """The outcome of the kills of one kind. Lists have an entry for each kill."""

    trainings: int = 0
    equal: int = 0
    rounds: list[int] = field(default_factory=list)
    """Rounds trained by the killed process."""
    left: list[int] = field(default_factory=list)
    """Records and checkpoints that the next process found."""
    torn: list[int] = field(default_factory=list)
    """Files that the kill cut off."""

    @property
    def kills(self) -> int:
        return len(self.rounds)

    def row(self, name: str) -> str:
        span = f"{min(self.rounds)} to {max(self.rounds)}"
        numbers = [self.kills, span, sum(n > 0 for n in self.left), max(self.left), sum(n > 0 for n in self.torn)]
        return f"| {name} | {' | '.join(map(str, [*numbers, self.trainings, self.equal]))} |"


HEAD = (
    "training | kills | rounds trained before each kill | kills that found records or checkpoints | at most so many | "
    "kills inside a save | trainings | equal bit for bit"
)


def undisturbed(kind: Kind, out: Path) -> tuple[Any, int, float]:
    """The result of an undisturbed training, its number of rounds, and the seconds of a round."""
    out.mkdir()
    counter, begun, codes = shared_counter(), time.monotonic(), []
    with life(replace(kind, trainers=1), out, counter) as children:
        while not (codes := ended(children)):
            if not counter.value:
                begun = time.monotonic()
            time.sleep(0.005)
    seconds = time.monotonic() - begun
    if codes != [0]:
        raise SystemExit(f"the undisturbed training failed:\n{(out / 'log.txt').read_text()[-3000:]}")
    # Trainings are forks of this process, so modules imported here need not be imported by each of them.
    for name in (out / MODULES).read_text().splitlines():
        with suppress(Exception):
            importlib.import_module(name)
    return kind.result(out), counter.value, seconds / counter.value


def disturbed(
    kind: Kind, out: Path, rounds: int, seconds: float, wanted: int, dice: random.Random, tally: Tally
) -> Any:
    """Kills a training until it has been killed often enough, lets it end, and returns its result."""
    out.mkdir()
    killed = 0
    torn: set[Path] = set()
    while True:
        counter = shared_counter()
        may_end = killed >= min(wanted, MAX_KILLS)
        trained, moment = dice.randint(1, max(2, round(SHARE * rounds))), dice.uniform(0.0, 1.5 * seconds)
        with life(kind, out, counter) as children:
            codes: list[int] = []
            while children:
                codes += ended(children)
                if not may_end and counter.value >= trained and children:
                    time.sleep(moment)
                    codes += ended(children)
                    break
                time.sleep(0.002)
            if not children:
                if any(codes):
                    raise SystemExit(f"a resumed training failed:\n{(out / 'log.txt').read_text()[-3000:]}")
                return kind.result(out)
            if dice.random() < 0.8 and (victim := one_of(children, dice)) is not None:
                # The others then wait for an answer that never comes, or notice that the connection broke.
                with suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)
                time.sleep(dice.uniform(0.0, 0.1))
        killed += 1
        tally.rounds.append(counter.value)
        tally.left.append(kind.left(out))
        found = kind.torn(out)
        tally.torn.append(len(found - torn))
        torn = found


def campaign(name: str, kills: int, dice: random.Random, folder: Path) -> Tally:
    """Runs trainings of one kind until there are enough kills."""
    kind, tally = KINDS[name], Tally()
    kind.plan()
    expected, rounds, seconds = undisturbed(kind, folder / "undisturbed")
    while tally.kills < kills:
        before = tally.kills
        out = folder / f"killed-{tally.trainings}"
        result = disturbed(kind, out, rounds, seconds, kills - before, dice, tally)
        if tally.kills == before:  # it ended before the kill
            shutil.rmtree(out)
            continue
        tally.trainings += 1
        tally.equal += result == expected
        for key in sorted({*result, *expected}):
            if result.get(key) != expected.get(key):
                print(f"{name}: {key} ends with {result.get(key)} instead of {expected.get(key)}"[:400], flush=True)
    return tally


def main() -> int:
    """Prints a table; the exit code is 1 if a training did not end where it should."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", help=f"which of: {', '.join(KINDS)}")
    parser.add_argument("--kills", type=int, default=18, help="total number of kills")
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments")
    options = parser.parse_args()
    names = options.kinds or list(KINDS)
    if unknown := set(names) - set(KINDS):
        parser.error(f"no such kind: {', '.join(unknown)}")
    torch.set_num_threads(1)
    dice = random.Random(options.seed)
    tallies: dict[str, Tally] = {}
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            tallies[name] = campaign(name, -(-options.kills // len(names)), dice, Path(folder))
    print(f"| {HEAD} |\n|{'---|' * 8}")
    for name, tally in tallies.items():
        print(tally.row(name))
    wrong = sum(tally.trainings - tally.equal for tally in tallies.values())
    print(f"{sum(tally.kills for tally in tallies.values())} kills, {wrong} trainings that ended elsewhere")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
