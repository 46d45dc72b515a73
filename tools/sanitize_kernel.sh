#!/usr/bin/env bash
# Builds the kernel with sanitizers into a scratch folder and runs its tests, AutoGradaGrad's and the sparse ones with it.
# The address sanitizer also runs calls with wrong arguments (tools/fuzz_ops.py, for FUZZ_SECONDS).
#
#   tools/sanitize_kernel.sh                  address and undefined behaviour, then threads
#   tools/sanitize_kernel.sh thread [pytest's options]
#
# The variants per instruction set are left out, because their resolvers run before the sanitizer is ready. The loops are
# compiled once, for AVX2 if this machine has it. Leaks are ignored, because Python and torch never free everything.
# The thread sanitizer does not understand OpenMP's barriers, so its build runs loops on plain threads.
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
# Tests that compare hundreds of options in Python are left out: they enter the kernel in the same ways as these.
tests=(tests/engine/test_kernel_*.py tests/test_sparse.py tests/test_faithful_auto.py)

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
    # setarch -R turns off address space randomisation, which may take the memory that the thread sanitizer needs.
    local sanitized=(env GRADAGRAD_KERNEL_PATH="$scratch/_kernel.abi3.so" LD_PRELOAD="${preload#:}" OMP_NUM_THREADS=2 \
        ASAN_OPTIONS="detect_leaks=0:halt_on_error=1:${ASAN_OPTIONS:-}" \
        UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1:${UBSAN_OPTIONS:-}" \
        TSAN_OPTIONS="ignore_noninstrumented_modules=1:halt_on_error=1:${TSAN_OPTIONS:-}" \
        setarch -R "$PYTHON")
    if [ "$kind" = address ]; then "${sanitized[@]}" tools/fuzz_ops.py "${FUZZ_SECONDS:-60}"; fi
    # --capture=sys leaves the file descriptors alone, so that the sanitizer can report.
    "${sanitized[@]}" -m pytest "${tests[@]}" -q --capture=sys -p no:cacheprovider -p no:xdist --timeout=1800 "$@"
}

for kind in "${kinds[@]}"; do run "$kind" "$@"; done
