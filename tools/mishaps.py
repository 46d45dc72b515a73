"""What else happens to trainings: full disks, folders that cannot be written, signals, dead ranks, very large tensors.

    python tools/mishaps.py [NAME...]           all but "large", or those named; prints a table
    python tools/mishaps.py large               a step on 2^31 + 5 elements, which takes 9 GiB of memory

A full disk and a read-only one are small file systems in memory, which only root can mount; without root they are left
out. Nothing may end in a traceback, nothing half written may be left behind, and the same command must go on later.
"""

from __future__ import annotations

import argparse
import bz2
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LONG = ("compare", "iris", "adam", "gradagrad", "--seeds", "2", "--workers", "1", "--epochs")
DATA, OUTPUT, INTERRUPTED = 3, 4, 130


class LeftOutError(Exception):
    """This cannot be tried here."""


def command(out: Path, *words: str) -> subprocess.Popen[str]:
    """The lab's command with an output folder, as a user starts it."""
    line = [sys.executable, "-m", "gradagrad_lab", *words, "--out", str(out)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GRADAGRAD_OFFLINE": "1"}
    reset = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731 — inherited as ignored from a nohup
    return subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, preexec_fn=reset
    )


def expect(process: subprocess.Popen[str], code: int, words: str = "") -> None:
    """It must end with this code, say this, and not show a traceback."""
    said, _ = process.communicate()
    if process.returncode != code or words not in said or "Traceback" in said:
        raise AssertionError(f"ended with {process.returncode} instead of {code}, saying:\n{said}")


def clean(out: Path) -> None:
    """No temporary file may be left."""
    left = [path.name for path in out.rglob("*.tmp")]
    if left:
        raise AssertionError(f"left behind: {left}")


@contextmanager
def mounted(options: str) -> Iterator[Path]:
    """A file system in memory."""
    with tempfile.TemporaryDirectory() as folder:
        line = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder]
        if os.geteuid() or subprocess.run(line, capture_output=True, check=False).returncode:
            raise LeftOutError("mounting needs root")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "-l", folder], check=True)


def full_disk() -> str:
    """Records do not fit; with room, the same command ends as if nothing had been."""
    with mounted("size=64k") as disk:
        (disk / "filler").write_bytes(bytes(40_000))
        expect(command(disk / "out", *LONG, "40"), OUTPUT, "disk is full")
        clean(disk / "out")
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        expect(command(disk / "out", *LONG, "40"), 0)
    return "one sentence, exit code 4; the same command went on once there was room"


def read_only() -> str:
    """A folder that cannot be written, not even by root."""
    with mounted("size=1m") as disk:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        expect(command(disk / "out", "train", "iris", "--epochs", "2"), OUTPUT, "cannot be written")
    return "one sentence, exit code 4"


def two_commands() -> str:
    """Two commands with the same output folder at the same time, and one after them that finds all done."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        both = [command(out, *LONG, "30") for _ in range(2)]
        for process in both:
            expect(process, 0)
        before = {path.name: path.stat().st_mtime_ns for path in (out / "records").glob("*.json")}
        expect(command(out, *LONG, "30"), 0)
        after = {path.name: path.stat().st_mtime_ns for path in (out / "records").glob("*.json")}
        if before != after or len(after) != 4:
            raise AssertionError(f"{len(after)} records, of which some were trained again")
        clean(out)
    return "both ended well; a third found every record whole"


def signalled(number: signal.Signals) -> Callable[[], str]:
    """A polite request to stop, in the middle of training."""

    def trial() -> str:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "out"
            process = command(out, *LONG, "100000")
            wait_for(out, "gradagrad-lab.json", process)
            time.sleep(2)  # the training begins just after this file is written
            process.send_signal(number)
            expect(process, INTERRUPTED, "Interrupted")
            clean(out)
        return "one sentence, exit code 130"

    return trial


def wait_for(out: Path, pattern: str, process: subprocess.Popen[str]) -> None:
    """Until such a file is there."""
    while not list(out.glob(pattern)):
        if process.poll() is not None:
            raise AssertionError(f"it ended too soon:\n{process.communicate()[0]}")
        time.sleep(0.05)


def script_tag() -> str:
    """A data set that is named like a script: nothing of it may be read as HTML, or as a path."""
    with tempfile.TemporaryDirectory() as folder:
        name = "<script>alert(1)<!script>[bold]:x:"
        data = Path(folder) / name
        data.write_text("".join(f"{1 + i % 2} 1:{i} 2:{-i}\n" for i in range(20)))
        out = Path(folder) / "out"
        expect(command(out, "compare", str(data), "adam", "--epochs", "2", "--seeds", "1"), 0)
        for page in out.rglob("*.html"):
            if "<script>alert" in page.read_text():
                raise AssertionError(f"{page} would run it")
        for picture in out.rglob("*.svg"):
            if "<script>alert" in picture.read_text():
                raise AssertionError(f"{picture} would run it")
    return "printed and drawn as it is"


def dead_rank(kind: str) -> Callable[[], str]:
    """One of two ranks is killed while it adds up gradients (DDP) or the optimizer's sums (FSDP2)."""

    def trial() -> str:
        with tempfile.TemporaryDirectory() as folder:
            # Looked at seldom, so that the other rank sees by itself that it is alone.
            torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node=2", "--monitor-interval=15"]
            line = [sys.executable, "-m", *torchrun]
            environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
            line += [str(ROOT / "tools/dead_rank.py"), kind, folder]
            lives = [
                subprocess.run(line, capture_output=True, text=True, env=environment, timeout=1800, check=False)
                for _ in range(2)
            ]
            ends = [path.read_text() for path in sorted(Path(folder).glob("rank*"))]
            seen = Path(folder) / "seen"
            if not lives[0].returncode or lives[1].returncode or ends != ["life 1 equal"] * 2 or not seen.exists():
                codes = [life.returncode for life in lives]
                raise AssertionError(f"ended with {codes}, {ends}:\n{lives[1].stderr[-2000:]}")
            words = seen.read_text().split("] ", 1)[-1].split(" [", 1)[0]
            return f'the other rank ends with "{words}"; started again, both end bit for bit as undisturbed'

    return trial


def hostile_archives() -> str:
    """Bombs, links out of the folder and other content, as a mirror and as a file of one's own."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "secret").write_text("1 1:1\n")
        bomb = bz2.compress(bytes(2**28 + 1))
        trials = {
            "a bomb": ("usps.bz2", bomb, "more than 268,435,456 bytes"),
            "an archive cut short": ("usps.bz2", bomb[:-20], "does not decompress"),
            "other content": ("usps.bz2", b"this is not bzip2", "does not decompress"),
            "no such format": ("set.txt", b"\x00\xff" * 100, "set.txt"),
        }
        for name, content, words in trials.values():
            (place / name).write_bytes(content)
            # Which is also its set's name with a data folder: both ways read the same file.
            expect(command(place / "out", "train", str(place / name), "--epochs", "1"), DATA, words)
    return f"{', '.join(trials)}: one sentence each, exit code {DATA}"


def large() -> str:
    """Element 2^31 + 4 of a bf16 parameter is stepped as the fourth of a small one."""
    import torch

    from gradagrad import GradaGrad

    memory = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    if (free := int(memory["MemAvailable"].split()[0]) / 2**20) < 16:
        raise LeftOutError(f"it needs 16 GiB of free memory, and there are {free:.0f}")
    found = []
    for size in (2**31 + 5, 9):
        p = torch.nn.Parameter(torch.zeros(size, dtype=torch.bfloat16))
        p.grad = torch.zeros_like(p)  # pages that are never written take no memory
        p.grad[-5:] = torch.tensor([1.0, -2.0, 3.0, 0.5, -0.25])
        optimizer = GradaGrad([p], 0.1, granularity="tensor", state_dtype=torch.bfloat16, fused=True)
        optimizer.warns_of_large_first_step = False  # the look at the first step would make a float32 copy of all
        for _ in range(2):
            optimizer.step()
        state = optimizer.state[p]
        tail = [p.detach()[-5:].clone(), state["momentum"][-5:].clone(), state["growth"].clone()]
        if p.detach()[:-5].any():
            raise AssertionError("an element without a gradient moved")
        found.append([*tail, state["accumulator"].clone()])
        del p, optimizer, state
    if not all(map(torch.equal, *found)):
        raise AssertionError(f"{found}")
    return "the last five elements as those of a small parameter"


MISHAPS: dict[str, Callable[[], str]] = {
    "full disk": full_disk,
    "read-only folder": read_only,
    "two commands, one folder": two_commands,
    "Ctrl-C": signalled(signal.SIGINT),
    "SIGTERM": signalled(signal.SIGTERM),
    "a set named like a script": script_tag,
    "hostile archives": hostile_archives,
    "a rank dies in DDP's all-reduce": dead_rank("replicated"),
    "a rank dies in FSDP2's all-reduce": dead_rank("sharded"),
    "large": large,
}


def main() -> int:
    """Prints a table; exit code 1 if anything went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"which of: {', '.join(MISHAPS)}")
    names = parser.parse_args().names or [name for name in MISHAPS if name != "large"]
    if unknown := set(names) - set(MISHAPS):
        parser.error(f"no such mishap: {', '.join(unknown)}")
    print("| mishap | what came of it |\n|---|---|", flush=True)
    wrong = 0
    for name in names:
        try:
            told = MISHAPS[name]()
        except LeftOutError as reason:
            told = f"left out: {reason}"
        except AssertionError as failure:
            wrong += 1
            told = f"WRONG: {failure}"
        print(f"| {name} | {told} |", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
