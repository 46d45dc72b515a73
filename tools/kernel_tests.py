"""Prints the tests of the kernel, to run them with another build of it.

python -m pytest $(python tools/kernel_tests.py)
"""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def kernel_tests() -> list[str]:
    """The test files whose path names the kernel, relative to the repository."""
    files = (path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py"))
    return sorted(file for file in files if re.search("fused|kernel", file))


if __name__ == "__main__":
    print(*kernel_tests())
