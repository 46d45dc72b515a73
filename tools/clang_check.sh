#!/usr/bin/env bash
# Builds the kernel with clang and runs its tests.
#
#     tools/clang_check.sh [pytest's arguments]
#     tools/clang_check.sh --short        half a minute of tests, others for each commit, for CI
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
    commit="$(git rev-parse HEAD 2>/dev/null || echo none)"
    export ANYWHERE_SEED="clang $commit" ANYWHERE_SECONDS=30 PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
    set -- -p tools.anywhere "$@"
fi
"$PYTHON" -m pytest "${tests[@]}" -q -p no:cacheprovider "$@"
