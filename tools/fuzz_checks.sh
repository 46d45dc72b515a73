#!/usr/bin/env bash
# Builds tools/fuzz_checks.cpp with clang's libFuzzer (apt-get install clang libclang-rt-14-dev) and runs it for some seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON="${PYTHON:-.venv/bin/python}"
CXX="${CXX:-clang++}"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
torch="$("$PYTHON" -c 'import importlib.util; print(importlib.util.find_spec("torch").submodule_search_locations[0])')"
"$CXX" -std=c++17 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -DTORCH_TARGET_VERSION=0x020a000000000000 \
    -I"$torch/include" -Isrc/gradagrad/kernel/csrc tools/fuzz_checks.cpp src/gradagrad/kernel/csrc/tensors.cpp \
    -o "$scratch/fuzz"
mkdir "$scratch/corpus"
"$scratch/fuzz" -max_total_time="${1:-60}" -max_len=256 -print_final_stats=1 -artifact_prefix="$scratch/" "$scratch/corpus"
