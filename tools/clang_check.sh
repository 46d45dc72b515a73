#!/usr/bin/env bash
# Builds the kernel with clang, as an install would where that is the compiler, and runs its tests with that build.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON="${PYTHON:-.venv/bin/python}"
export CXX="${CXX:-clang++}"
if ! command -v "$CXX" >/dev/null; then
    echo "$CXX is not there: apt-get install clang" >&2
    exit 2
fi
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

"$CXX" --version | head -n 1
GRADAGRAD_KERNEL=1 "$PYTHON" setup.py --quiet build_ext --build-lib "$scratch" --build-temp "$scratch/objects"
export GRADAGRAD_KERNEL_PATH="$scratch/gradagrad/_kernel.abi3.so"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}"
"$PYTHON" -m gradagrad
"$PYTHON" tools/smoke.py kernel
"$PYTHON" -m pytest $("$PYTHON" tools/kernel_tests.py) -q -p no:cacheprovider "$@"
