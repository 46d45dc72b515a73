#!/usr/bin/env bash
# Builds the kernel with clang and runs its tests.
#
#     tools/clang_check.sh [pytest's arguments]
#     tools/clang_check.sh --short        one file of tests, for CI
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON="${PYTHON:-.venv/bin/python}"
export CXX="${CXX:-clang++}"
if ! command -v "$CXX" >/dev/null; then
    echo "$CXX is not installed: apt-get install clang" >&2
    exit 2
fi
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

"$CXX" --version | head -n 1
GRADAGRAD_KERNEL=1 "$PYTHON" setup.py --quiet build_ext --build-lib "$scratch" --build-temp "$scratch/objects"
export GRADAGRAD_KERNEL_PATH="$scratch/gradagrad/kernel/_kernel.abi3.so"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}"
"$PYTHON" -m gradagrad
"$PYTHON" tools/smoke.py kernel
tests=(tests/engine/test_kernel_*.py)
if [ "${1:-}" = --short ]; then
    shift
    tests=(tests/engine/test_kernel_rules.py)
fi
"$PYTHON" -m pytest "${tests[@]}" -q -p no:cacheprovider "$@"
