"""Compiles the Triton kernels for GPUs that need not be present, and reads the compilers' output.

``python -m benchmarks.gpu_compile [sm_80 sm_90 gfx942]`` prints registers, spills, widths of accesses and instructions
per element of the loop over whole tiles. Quotients and roots near the ends of the range call a function, which is not
counted. The budget is the number of instructions that a GPU can issue at half its rate while it waits for an element's
bytes at 85 % of its bandwidth. Above it, a kernel may wait for arithmetic instead of memory.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad.triton.launch import WARPS, common_spec, module, sizes_for, specs_of
from gradagrad.triton.source import Spec

TARGETS = {"sm_80": ("cuda", 80, 32), "sm_90": ("cuda", 90, 32), "gfx942": ("hip", "gfx942", 64)}


@dataclass(frozen=True)
class Gpu:
    """Numbers from the data sheet."""

    name: str
    bandwidth: float  # bytes per second
    units: int  # streaming multiprocessors
    clock: float  # Hz, boost

    def instructions(self, size: float) -> float:
        """The budget: instructions per element at half the rate while its ``size`` bytes arrive."""
        issued = self.units * self.clock * 4 * 32  # four warps of 32 lanes each clock
        return 0.5 * issued * size / (0.85 * self.bandwidth)


GPUS = {
    "sm_80": Gpu("A100 80 GB", 2.04e12, 108, 1.41e9),
    "sm_90": Gpu("H100 SXM", 3.35e12, 132, 1.755e9),
}


@dataclass(frozen=True)
class Compiled:
    """Properties of one compiled kernel."""

    kernel: str
    target: str
    registers: int
    spills: int
    """Accesses to local memory, or registers that were spilled."""
    narrow: int
    """Loads and stores in the unmasked loop that are below 128 bits wide."""
    wide: int
    """Loads and stores of 128 bits in the whole kernel."""
    instructions: float | None
    """Per element of the unmasked loop."""
    roots: int
    """Reciprocals, roots and reciprocal roots in the unmasked loop, per element."""


def compiled(spec: Spec, name: str, target: str, size: float) -> Compiled:
    """Compiles one kernel of a spec."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function = module(spec)[f"{name}_kernel"]
    sizes = {
        key: getattr(sizes_for(target.startswith("gfx")), key.lower())
        for key in ("TILE", "WIDTH")
        if key in function.arg_names
    }
    signature = {key: "constexpr" if key in sizes else _type(key) for key in function.arg_names}
    aligned = {(i,): [["tt.divisibility", 16]] for i, kind in enumerate(signature.values()) if kind.startswith("*")}
    source = ASTSource(function, signature, constexprs=sizes, attrs=aligned)
    options = {"num_warps": WARPS, "enable_fp_fusion": False}
    result = triton.compile(source, target=GPUTarget(*TARGETS[target]), options=options)
    read = _amd if target.startswith("gfx") else _nvidia
    return Compiled(name, target, *read(result, size))


def _type(argument: str) -> str:
    if argument in ("table", "work", "sum_spans", "statistic_spans", "spans"):
        return "*i64"
    if argument in ("sums", "statistics", "partial"):
        return "*fp64"
    return "i32" if argument in ("n", "first", "step", "ahead") else "fp64"


def _nvidia(result: Any, size: float) -> tuple[int, int, int, int, float | None, int]:
    from triton.backends import nvidia

    tools = Path(nvidia.__file__).parent / "bin"
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder, "kernel.cubin")
        binary.write_bytes(result.asm["cubin"])
        usage = _run(tools / "cuobjdump", "-res-usage", binary)
        sass = _run(tools / "nvdisasm", "-c", binary)
    registers = int(re.findall(r"REG:(\d+)", usage)[0])
    lines = [line for line in sass.splitlines() if re.search(r"/\*[0-9a-f]{4,}\*/|^\.L", line.strip())]
    body = max(_loops(lines), key=lambda loop: sum(".128" in line for line in loop), default=[])
    widths = [int((re.findall(r"\.(64|128)", line) or [32])[0]) for line in body if re.search(r"\b(LDG|STG)\b", line)]
    narrow = sum(width < 128 for width in widths)
    instructions = _usual(body)
    elements = sum(widths) / 8 / size if size and len(widths) > narrow else 0  # the compiler may have unrolled the loop
    spills = sum(bool(re.search(r"\b(LDL|STL)\b", line)) for line in lines)
    count = len(instructions) / elements if elements else None
    roots = round(sum("MUFU" in line for line in instructions) / elements) if elements else 0
    wide = len(re.findall(r"\b(?:LDG|STG)[\w.]*\.128", sass))
    return registers, spills, narrow if elements else 0, wide, count, roots


def _loops(lines: list[str]) -> list[list[str]]:
    """The lines between a label and a branch back to it."""
    labels = {line.strip().rstrip(":"): i for i, line in enumerate(lines) if line.strip().startswith(".L")}
    loops: list[list[str]] = []
    for i, line in enumerate(lines):
        target = re.search(r"\bBRA.*?`\((\.L[\w.]+)\)", line)
        if target and labels.get(target[1], i) < i:
            loops.append(lines[labels[target[1]] : i + 1])
    return loops


def _usual(body: list[str]) -> list[str]:
    """The instructions of a loop without the calls that a branch usually skips."""
    labels = {line.strip().rstrip(":"): i for i, line in enumerate(body) if line.strip().startswith(".L")}
    avoided: set[int] = set()
    for i, line in enumerate(body):
        target = re.search(r"@!?U?P\d BRA.*?`\((\.L[\w.]+)\)", line)
        around = range(i + 1, labels.get(target[1], 0) if target else 0)
        avoided.update(around if any("CALL" in body[j] for j in around) else ())
    return [line for i, line in enumerate(body) if i not in avoided and not line.strip().startswith(".L")]


def _amd(result: Any, size: float) -> tuple[int, int, int, int, float | None, int]:
    text = result.asm["amdgcn"]
    registers = int(re.findall(r"\.vgpr_count:\s+(\d+)", text)[0])
    spills = sum(int(n) for n in re.findall(r"\.[sv]gpr_spill_count:\s+(\d+)", text))
    wide = len(re.findall(r"global_(?:load|store)_dwordx4", text))
    return registers, spills, 0, wide, None, 0


def _run(tool: Path, *arguments: Any) -> str:
    return subprocess.run([str(tool), *map(str, arguments)], check=True, capture_output=True, text=True).stdout


def spec_of(make: Callable[..., Any], **options: Any) -> Spec:
    """The spec of an optimizer's steps of dense float32 tensors."""
    parameter = torch.nn.Parameter(torch.zeros(2, 2))
    parameter.grad = torch.zeros(2, 2)
    batch = make([parameter], **options)._batches()[0]
    return specs_of(batch, common_spec(batch)._replace(counter="argument"))[0]


_GROUP = spec_of(GradaGrad, granularity="group", momentum=0.9)
KERNELS: dict[str, tuple[Spec, str, int]] = {
    "element, β = 0": (spec_of(GradaGrad), "step", 36),
    "element, β = 0.9": (spec_of(GradaGrad, momentum=0.9), "step", 36),
    "element, β = 0.9, bf16 state": (spec_of(GradaGrad, momentum=0.9, state_dtype=torch.bfloat16), "step", 24),
    "group, β = 0.9: measure": (_GROUP, "measure", 8),
    "group, β = 0.9: move": (_GROUP, "move", 20),
    "group, β = 0.9: write_shared": (_GROUP, "write_shared", 0),
    "auto: move": (spec_of(AutoGradaGrad), "move", 36),
    "auto, no guard: move": (spec_of(AutoGradaGrad, guard=False), "move", 36),
}
"""By name: spec, kernel, and bytes of memory per element."""


def main(targets: list[str]) -> None:
    print("| kernel | target | registers | spills | 128-bit / narrower | instructions per element | MUFU | budget |")
    print("|---|---|---|---|---|---|---|---|")
    for target in targets or TARGETS:
        for label, (spec, name, size) in KERNELS.items():
            c = compiled(spec, name, target, size)
            budget = f"{GPUS[target].instructions(size):.0f}" if target in GPUS and size else ""
            each = "" if c.instructions is None else f"{c.instructions:.0f}"
            row = (label, target, c.registers, c.spills, f"{c.wide} / {c.narrow}", each, c.roots, budget)
            print("| " + " | ".join(str(cell) for cell in row) + " |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
