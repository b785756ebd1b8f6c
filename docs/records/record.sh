#!/bin/sh
# Makes the records of BENCHMARKS.md anew, on a machine with a GPU: docs/records/record.sh [DEVICE]. A model's folder in
# MODELS (with a space between two) is served, too; peers are timed where cuBLAS and cuDNN are found (LD_LIBRARY_PATH), and
# NCCL, where there are several GPUs, of NCCL (a path or a name). Devices are recorded without the driver's version.
# Then: BENCHMARKS.md holds what `warpfold bench --markdown docs/records/NAME.json` prints.
set -eu
cd "$(dirname "$0")"
device=${1:-cuda:0}
warpfold=${WARPFOLD:-../../target/release/warpfold}
operators="copy sum argmax softmax norm scale cross-entropy scan segments map gemv histogram"
"$warpfold" bench $operators --device "$device" --report json -o operators.json
"$warpfold" bench matmul --device "$device" --report json -o gemm.json
"$warpfold" bench conv --device "$device" --report json -o conv.json
"$warpfold" bench attention --device "$device" --report json -o attention.json
ladder() { "$warpfold" ladder "$@" --device "$device" --report json; }
{
    ladder vector-add
    for name in reduce reduce-lessons group-reduce scan softmax softmax-vector norm rms-norm scale gemv histogram; do
        ladder "$name"
    done
    for name in relu sigmoid dot attention decode; do ladder "$name"; done
    for n in 256 512 1024 2048 4096; do ladder sgemm --size "${n}x${n}x${n}"; done
    for n in 4096 8192; do ladder hgemm --size "${n}x${n}x${n}"; done
    for problem in 1 2 3 4 5 6 7; do ladder conv --size "${problem}x1"; done
} >ladders.json
if [ -n "${MODELS:-}" ]; then
    for model in $MODELS; do
        "$warpfold" bench serve "$model" --device "$device" --workload nano --concurrency 256 --report json
        "$warpfold" bench serve "$model" --device "$device" --workload random:64/512 --requests 4 --concurrency 1 \
            --report json
    done >engine.json
fi
gpus=$("$warpfold" devices | grep -c '^cuda:[0-9]') || gpus=0
# A machine of one GPU leaves the record of several as it is.
[ "$gpus" -ge 2 ] || exit 0
for n in 2 4; do
    [ "$n" -le "$gpus" ] || break
    for size in 16384 131072 4194304 268435456; do
        "$warpfold" ladder all_reduce --device "$device" --devices "$n" --size "$size" --nccl "${NCCL:-libnccl.so.2}" \
            --report json
    done
done >all_reduce.json
