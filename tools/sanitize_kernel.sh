#!/usr/bin/env bash
# Builds the kernel with the address and undefined-behaviour sanitizers into a scratch folder and runs its tests with it.
#
# The clones per instruction set are left out, because their resolvers run before the sanitizer is ready; the loops are then
# compiled once, for AVX2 where this machine has it. Leaks are not looked for: Python and torch never free everything.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON="${PYTHON:-.venv/bin/python}"
CXX="${CXX:-g++}"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

torch="$("$PYTHON" -c 'import torch, pathlib; print(pathlib.Path(torch.__file__).parent)')"
machine=()
if grep -q avx2 /proc/cpuinfo; then machine=(-march=x86-64-v3); fi
for source in src/gradagrad/csrc/*.cpp; do
    echo "compiling $source"
    "$CXX" -std=c++17 -O1 -g -ftree-loop-vectorize -fopenmp-simd -fno-math-errno -fno-trapping-math -ffp-contract=off \
        -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer "${machine[@]}" \
        -DGRADAGRAD_NO_CLONES -DTORCH_TARGET_VERSION=0x020a000000000000 \
        -I"$torch/include" -Isrc/gradagrad/csrc -fPIC -c "$source" -o "$scratch/$(basename "$source" .cpp).o"
done
"$CXX" -shared -fsanitize=address,undefined "$scratch"/*.o -o "$scratch/_kernel.abi3.so" -L"$torch/lib" -ltorch_cpu

export GRADAGRAD_KERNEL_PATH="$scratch/_kernel.abi3.so"
export LD_PRELOAD="$("$CXX" -print-file-name=libasan.so):$("$CXX" -print-file-name=libubsan.so):$("$CXX" -print-file-name=libstdc++.so.6)"
export ASAN_OPTIONS="detect_leaks=0:halt_on_error=1:${ASAN_OPTIONS:-}"
export UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1:${UBSAN_OPTIONS:-}"
export OMP_NUM_THREADS=2
"$PYTHON" -m gradagrad
"$PYTHON" -m pytest tests/fused tests/auto/test_fused.py tests/auto/test_fused_sparse.py -q -p no:cacheprovider -p no:xdist --timeout=900 "$@"
