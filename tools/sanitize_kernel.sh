#!/usr/bin/env bash
# Builds the kernel with sanitizers into a scratch folder and runs its tests and AutoGradaGrad's with it, sparse ones included;
# with the address sanitizer also calls of its ops with spoilt arguments (tools/fuzz_ops.py, FUZZ_SECONDS).
#
#   tools/sanitize_kernel.sh                  address and undefined behaviour, then threads
#   tools/sanitize_kernel.sh thread [pytest's options]
#
# The clones per instruction set are left out, because their resolvers run before the sanitizer is ready; the loops are then
# compiled once, for AVX2 where this machine has it. Leaks are not looked for: Python and torch never free everything.
# The thread sanitizer does not see OpenMP's barriers, so that for it loops are shared among plain threads.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON="${PYTHON:-.venv/bin/python}"
CXX="${CXX:-g++}"
kinds=(address thread)
if [ $# -gt 0 ] && { [ "$1" = address ] || [ "$1" = thread ]; }; then
    kinds=("$1")
    shift
fi
torch="$("$PYTHON" -c 'import torch, pathlib; print(pathlib.Path(torch.__file__).parent)')"
machine=()
if grep -q avx2 /proc/cpuinfo; then machine=(-march=x86-64-v3); fi
# Not what compares options in Python by the hundred: the kernel is entered in the same ways by fewer.
tests=($("$PYTHON" tools/kernel_tests.py) tests/test_sparse.py tests/auto/test_sparse.py tests/auto/test_faithful.py)

run() {
    local kind="$1" flags libraries
    shift
    if [ "$kind" = address ]; then
        flags=(-fsanitize=address,undefined -fno-sanitize-recover=all)
        libraries=(libasan.so libubsan.so)
    else
        flags=(-fsanitize=thread -include "$PWD/tools/plain_threads.h")
        libraries=(libtsan.so)
    fi
    local scratch
    scratch="$(mktemp -d)"
    trap 'rm -rf "'"$scratch"'"' RETURN
    for source in src/gradagrad/kernel/csrc/*.cpp; do
        echo "compiling $source ($kind)"
        "$CXX" -std=c++17 -O1 -g -fvisibility=hidden -ftree-loop-vectorize -fopenmp-simd -fno-math-errno -fno-trapping-math -ffp-contract=off \
            "${flags[@]}" -fno-omit-frame-pointer "${machine[@]}" \
            -DGRADAGRAD_NO_CLONES -DTORCH_TARGET_VERSION=0x020a000000000000 \
            -I"$torch/include" -Isrc/gradagrad/kernel/csrc -fPIC -c "$source" -o "$scratch/$(basename "$source" .cpp).o"
    done
    "$CXX" -shared "${flags[@]:0:1}" "$scratch"/*.o -o "$scratch/_kernel.abi3.so" -L"$torch/lib" -ltorch_cpu
    local preload=""
    for library in "${libraries[@]}" libstdc++.so.6; do preload="$preload:$("$CXX" -print-file-name="$library")"; done
    # Without address space randomisation, under which the thread sanitizer may find its memory taken.
    local sanitized=(env GRADAGRAD_KERNEL_PATH="$scratch/_kernel.abi3.so" LD_PRELOAD="${preload#:}" OMP_NUM_THREADS=2 \
        ASAN_OPTIONS="detect_leaks=0:halt_on_error=1:${ASAN_OPTIONS:-}" \
        UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1:${UBSAN_OPTIONS:-}" \
        TSAN_OPTIONS="ignore_noninstrumented_modules=1:halt_on_error=1:${TSAN_OPTIONS:-}" \
        setarch -R "$PYTHON")
    if [ "$kind" = address ]; then "${sanitized[@]}" tools/fuzz_ops.py "${FUZZ_SECONDS:-60}"; fi
    # Captured without its file descriptors, through which the sanitizer says what it found.
    "${sanitized[@]}" -m pytest "${tests[@]}" -q --capture=sys -p no:cacheprovider -p no:xdist --timeout=1800 "$@"
}

for kind in "${kinds[@]}"; do run "$kind" "$@"; done
