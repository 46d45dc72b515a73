"""The tests of the kernel, for whoever runs them on another build of it: files that speak of it in their path.

python -m pytest $(python tools/kernel_tests.py)
"""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def kernel_tests() -> list[str]:
    """Relative to the repository."""
    files = (path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py"))
    return sorted(file for file in files if re.search("fused|kernel", file))


if __name__ == "__main__":
    print(*kernel_tests())
