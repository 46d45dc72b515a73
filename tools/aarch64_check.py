"""Compiles the kernel for 64-bit ARM and runs its tests there, emulated.

    python tools/aarch64_check.py [pytest's arguments; without, all tests of the kernel]

Needs Debian's g++-aarch64-linux-gnu; the tests also need qemu-user and, fetched into build/aarch64, Debian's Python and
torch for that machine. What cannot be had is said, and then compiling is all that is checked. Emulation is some twenty
times slower than the machine itself: all tests take their time.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import foreign_torch
from kernel_tests import kernel_tests

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
import setup  # noqa: E402

SCRATCH = ROOT / "build" / "aarch64"
COMPILER = "aarch64-linux-gnu-g++"
# torch reads which processor it runs on, and under emulation would find this machine's.
PROCESSOR = """processor\t: 0
BogoMIPS\t: 100.00
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 cpuid
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x0
CPU part\t: 0xd08
CPU revision\t: 3

"""


def compile_kernel(torch: Path) -> Path:
    """The kernel for ARM, with the flags of setup.py."""
    objects = SCRATCH / "objects"
    shutil.rmtree(objects, ignore_errors=True)
    objects.mkdir(parents=True)
    macros = [f"-D{name}={value}" for name, value in setup.MACROS]
    includes = [f"-I{ROOT / setup.SOURCES}", f"-I{torch / 'include'}"]
    made: list[str] = []
    for source in setup.sources():
        made.append(str(objects / f"{Path(source).stem}.o"))
        command = [COMPILER, *setup.flags(COMPILER), *macros, *includes, "-Wall", "-fPIC", "-c", source, "-o", made[-1]]
        subprocess.run(command, check=True, cwd=ROOT)
    kernel = SCRATCH / "_kernel.abi3.so"
    link = [COMPILER, "-shared", *made, "-o", str(kernel), f"-L{torch / 'lib'}", "-ltorch_cpu"]
    subprocess.run(link, check=True)
    return kernel


def debian_root() -> Path:
    """Debian's Python for ARM and the libraries it needs, unpacked; this machine's own packages are left alone."""
    root, apt = SCRATCH / "root", SCRATCH / "apt"
    if not (root / "ready").exists():
        for folder in ("state/lists/partial", "cache/archives/partial"):
            (apt / folder).mkdir(parents=True, exist_ok=True)
        (apt / "state/status").touch()
        options = ["APT::Architecture=arm64", "APT::Architectures=arm64", "APT::Sandbox::User=root"]
        options += [f"Dir::Cache={apt / 'cache'}", f"Dir::State={apt / 'state'}"]
        options += [f"Dir::State::status={apt / 'state/status'}"]
        command = ["apt-get", "-qq", *(word for option in options for word in ("-o", option))]
        subprocess.run([*command, "update"], check=True)
        wanted = ["--download-only", "--no-install-recommends", "-y", "install", "python3", "libstdc++6", "libgomp1"]
        subprocess.run([*command, *wanted], check=True, stdout=subprocess.DEVNULL)
        for package in sorted((apt / "cache/archives").glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", str(package), str(root)], check=True)
        cpus = root / "sys/devices/system/cpu"
        for file, text in {
            root / "proc/cpuinfo": PROCESSOR,
            cpus / "possible": "0\n",
            cpus / "present": "0\n",
            cpus / "cpu0/regs/identification/midr_el1": "0x00000000410fd083\n",
        }.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        (root / "ready").touch()
    return root


def main(arguments: list[str]) -> int:
    """Exit code 1 if it does not compile or a test fails, 2 if there is no compiler."""
    if not shutil.which(COMPILER):
        print(f"{COMPILER} is not there: apt-get install g++-aarch64-linux-gnu qemu-user", file=sys.stderr)
        return 2
    version = (ROOT / "constraints.txt").read_text().partition("torch==")[2].split()[0]
    root = debian_root() if shutil.which("qemu-aarch64") and shutil.which("apt-get") else None
    python = "3.11"
    if root:
        python = min(path.name for path in (root / "usr/bin").glob("python3.*") if path.name[8:].isdigit())[6:]
    site = foreign_torch.install(SCRATCH / f"torch-{version}", version, python, "aarch64", "aarch64-linux-gnu-gcc")
    kernel = compile_kernel(site / "torch")
    print(f"compiled for aarch64: {kernel.relative_to(ROOT)}", flush=True)
    if not root:
        print("not run: qemu-aarch64 (apt-get install qemu-user) and apt-get are needed for that")
        return 0
    tools = SCRATCH / "test-tools"
    if not tools.exists():
        foreign_torch.pip_target(tools, python, "aarch64", "pytest>=8", "pytest-timeout", "hypothesis", "expecttest")
    environment = os.environ | {
        "QEMU_LD_PREFIX": str(root),
        "PYTHONPATH": os.pathsep.join(str(path) for path in (ROOT / "src", site, tools)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "GRADAGRAD_KERNEL_PATH": str(kernel),
        "OMP_NUM_THREADS": "1",
    }
    emulator = ["qemu-aarch64", "-cpu", "cortex-a72", str(root / f"usr/bin/python{python}")]
    subprocess.run([*emulator, "-m", "gradagrad"], env=environment, cwd=ROOT, check=True)
    subprocess.run([*emulator, "-W", "ignore", "tools/smoke.py", "kernel"], env=environment, cwd=ROOT, check=True)
    test = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=1800", *(arguments or kernel_tests())]
    return subprocess.run([*emulator, *test], env=environment, cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
