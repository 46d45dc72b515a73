"""Checks what trainings do on full disks, in read-only folders, on signals, and with very large tensors.

    python tools/mishaps.py [NAME...]           all but "large", or those named; prints a table
    python tools/mishaps.py large               a step on 2^31 + 5 elements, which takes 9 GiB of memory

The full and the read-only disk are small file systems in memory. Only root can mount them; without root they are
skipped. No command may end in a traceback or leave half-written files, and the same command must be able to resume.
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

LONG = ("compare", "iris", "adam", "gradagrad", "--seeds", "2", "--workers", "1", "--epochs")
DATA, OUTPUT, INTERRUPTED = 3, 4, 130


class SkippedError(Exception):
    """This machine cannot run the check."""


def command(out: Path, *words: str) -> subprocess.Popen[str]:
    """The lab's command with an output folder, as a user starts it."""
    line = [sys.executable, "-m", "gradagrad_lab", *words, "--out", str(out)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GRADAGRAD_OFFLINE": "1"}
    reset = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731 — nohup leaves the signal ignored
    return subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, preexec_fn=reset
    )


def expect(process: subprocess.Popen[str], code: int, words: str = "") -> None:
    """Raises unless the command ends with this code, prints these words, and shows no traceback."""
    output, _ = process.communicate()
    if process.returncode != code or words not in output or "Traceback" in output:
        raise AssertionError(f"ended with {process.returncode} instead of {code}, with the output:\n{output}")


def clean(out: Path) -> None:
    """Raises if a temporary file is left."""
    left = [path.name for path in out.rglob("*.tmp")]
    if left:
        raise AssertionError(f"left behind: {left}")


@contextmanager
def mounted(options: str) -> Iterator[Path]:
    """A file system in memory."""
    with tempfile.TemporaryDirectory() as folder:
        line = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder]
        if os.geteuid() or subprocess.run(line, capture_output=True, check=False).returncode:
            raise SkippedError("mounting needs root")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "-l", folder], check=True)


def full_disk() -> str:
    """Records do not fit. Once there is room, the same command resumes and ends well."""
    with mounted("size=64k") as disk:
        (disk / "filler").write_bytes(bytes(40_000))
        expect(command(disk / "out", *LONG, "40"), OUTPUT, "disk is full")
        clean(disk / "out")
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        expect(command(disk / "out", *LONG, "40"), 0)
    return "one message, exit code 4; the same command resumed once there was room"


def read_only() -> str:
    """A folder that nobody can write to, not even root."""
    with mounted("size=1m") as disk:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        expect(command(disk / "out", "train", "iris", "--epochs", "2"), OUTPUT, "cannot be written")
    return "one message, exit code 4"


def two_commands() -> str:
    """Two commands share an output folder, and a third finds everything done."""
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
    return "both ended well; a third found all records complete"


def signalled(number: signal.Signals) -> Callable[[], str]:
    """A signal to stop in the middle of training."""

    def trial() -> str:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "out"
            process = command(out, *LONG, "100000")
            wait_for(out, "gradagrad-lab.json", process)
            time.sleep(2)  # the training begins just after this file is written
            process.send_signal(number)
            expect(process, INTERRUPTED, "Interrupted")
            clean(out)
        return "one message, exit code 130"

    return trial


def wait_for(out: Path, pattern: str, process: subprocess.Popen[str]) -> None:
    """Waits until a file matches the pattern."""
    while not list(out.glob(pattern)):
        if process.poll() is not None:
            raise AssertionError(f"the command ended too soon:\n{process.communicate()[0]}")
        time.sleep(0.05)


def script_tag() -> str:
    """The name of a data set is a script tag. Nothing may treat it as HTML or as a path."""
    with tempfile.TemporaryDirectory() as folder:
        name = "<script>alert(1)<!script>[bold]:x:"
        data = Path(folder) / name
        data.write_text("".join(f"{1 + i % 2} 1:{i} 2:{-i}\n" for i in range(20)))
        out = Path(folder) / "out"
        expect(command(out, "compare", str(data), "adam", "--epochs", "2", "--seeds", "1"), 0)
        for page in (*out.rglob("*.html"), *out.rglob("*.svg")):
            if "<script>alert" in page.read_text():
                raise AssertionError(f"{page} would run it")
    return "printed and drawn as plain text"


def hostile_archives() -> str:
    """Decompression bombs, truncated archives and files of no known format."""
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
            expect(command(place / "out", "train", str(place / name), "--epochs", "1"), DATA, words)
    return f"{', '.join(trials)}: one message each, exit code {DATA}"


def large() -> str:
    """The last elements of a parameter with 2^31 + 5 elements step as those of a small one."""
    import torch

    from gradagrad import GradaGrad

    memory = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    if (free := int(memory["MemAvailable"].split()[0]) / 2**20) < 16:
        raise SkippedError(f"it needs 16 GiB of free memory, and {free:.0f} are free")
    found = []
    for size in (2**31 + 5, 9):
        p = torch.nn.Parameter(torch.zeros(size, dtype=torch.bfloat16))
        p.grad = torch.zeros_like(p)  # the system allocates only pages that are written
        p.grad[-5:] = torch.tensor([1.0, -2.0, 3.0, 0.5, -0.25])
        optimizer = GradaGrad([p], 0.1, granularity="tensor", state_dtype=torch.bfloat16, fused=True)
        optimizer.warns_of_large_first_step = False  # the check would copy everything to float32
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
    return "the last five elements equal those of a small parameter"


MISHAPS: dict[str, Callable[[], str]] = {
    "full disk": full_disk,
    "read-only folder": read_only,
    "two commands, one folder": two_commands,
    "Ctrl-C": signalled(signal.SIGINT),
    "SIGTERM": signalled(signal.SIGTERM),
    "a data set named like a script": script_tag,
    "hostile archives": hostile_archives,
    "large": large,
}


def main() -> int:
    """Prints a table; the exit code is 1 if anything went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"which of: {', '.join(MISHAPS)}")
    names = parser.parse_args().names or [name for name in MISHAPS if name != "large"]
    if unknown := set(names) - set(MISHAPS):
        parser.error(f"no such mishap: {', '.join(unknown)}")
    print("| mishap | outcome |\n|---|---|", flush=True)
    wrong = 0
    for name in names:
        try:
            outcome = MISHAPS[name]()
        except SkippedError as reason:
            outcome = f"skipped: {reason}"
        except AssertionError as failure:
            wrong += 1
            outcome = f"WRONG: {failure}"
        print(f"| {name} | {outcome} |", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
