#!/bin/sh
# Runs a test program again and again; stops at the first run that fails or takes too long.
#
#   cargo test --release -p warpfold-collectives --no-run        (prints the path of the program)
#   WARPFOLD_DEVICE=cuda sh crates/collectives/tests/repeat.sh [-n RUNS] [-t SECONDS] PROGRAM [ARGUMENT...]
#
# 100 runs of 120 s at most unless said. Each run draws 100 random collectives (WARPFOLD_ROUNDS says
# another number) of a seed of its own (WARPFOLD_SEED, the number of the run), so that 100 runs see
# 10,000 different ones. The last line says how many runs passed; the status is 0 if all did.
runs=100 limit=120
while getopts n:t: option; do
    case $option in
        n) runs=$OPTARG ;;
        t) limit=$OPTARG ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { echo "usage: repeat.sh [-n RUNS] [-t SECONDS] PROGRAM [ARGUMENT...]" >&2; exit 2; }
export WARPFOLD_ROUNDS="${WARPFOLD_ROUNDS:-100}"
text=$(mktemp) start=$(date +%s) run=0
trap 'rm -f "$text"' EXIT
while [ "$run" -lt "$runs" ]; do
    WARPFOLD_SEED=$((run + 1)) timeout -k 5 "$limit" "$@" >"$text" 2>&1
    status=$?
    if [ "$status" -ne 0 ]; then
        tail -n 60 "$text"
        case $status in
            124 | 137) why="took more than $limit s" ;;
            *) why="ended with status $status" ;;
        esac
        echo "run $((run + 1)) $why; $run of $runs runs passed in $(($(date +%s) - start)) s"
        exit 1
    fi
    run=$((run + 1))
    [ $((run % 10)) -ne 0 ] || echo "$run runs passed in $(($(date +%s) - start)) s; $(grep 'test result' "$text" | tail -n 1)"
done
echo "$run of $runs runs passed in $(($(date +%s) - start)) s"
