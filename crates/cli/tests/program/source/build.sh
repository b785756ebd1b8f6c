#!/bin/bash
# Regenerates the PTX beside it, as fixtures/README.md says of the compilers: NVCC names nvcc, PYTHON a Python with Triton.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# Debug information names the folder of the source: build in one that does not depend on the machine.
build=/tmp/warpfold-fixtures/src
rm -rf "$build"
mkdir -p "$build"
trap 'rm -rf "$build"' EXIT
cp "$here"/transpose.cu "$here"/tri.py "$build"
cd "$build"
"${NVCC:-nvcc}" -ptx -arch=sm_80 -std=c++17 -lineinfo transpose.cu -o "$here/transpose.ptx"
TRITON_CACHE_DIR=$build/cache "${PYTHON:-python3}" tri.py
for file in scaled_row_sum.ptx scaled_row_sum.json; do
    sed -E 's#"[^"]*/(triton/[^"]*)"#"\1"#g' "$build"/cache/*/"$file" > "$here/triton/$file"
done
