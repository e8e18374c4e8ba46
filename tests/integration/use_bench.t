#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dtctl bench: columns, formulas and errors, on two and three nodes of provider local; with the
# stand-ins for the driver and NCCL where they are built, also a planted wrong sum.
# shellcheck disable=SC2016 # awk expands its own variables
source "${0%/*}/../lib.sh"

dtctl up --nodes 3 >made.log 2>&1 || diag "$(cat made.log)"
# The settings of a training run do not matter here.
printf '[train]\npipeline = 2\ncommand = ["false"]\n' >dtctl.toml

# rows: size, count, redop, time, algbw, busbw, wrong
rows() { awk '!/^#/ && NF == 9 && $3 == "float" { print $1, $2, $4, $6, $7, $8, $9 }' <<<"$out"; }
small=(--min-bytes 4KiB --max-bytes 1MiB --factor 16 --iterations 4 --warmup 1)
# measures KIND NODES FACTOR
measures() {
    local kind=$1 nodes=$2 bus=$3
    run dtctl bench "$kind" --nodes "$nodes" "${small[@]}"
    is "$status" 0 "$kind on $nodes nodes is measured" || diag "$err"
    is "$(rows | wc -l)" 3 "$kind on $nodes nodes is measured for three sizes"
    is "$(rows | awk '{ print $7 }' | sort -u)" 0 "$kind on $nodes nodes: nothing is wrong"
    like "$out" "# $kind between $nodes ranks on $nodes nodes, between processors by ring" \
        "$kind on $nodes nodes: the head says how"
    run dtctl bench "$kind" --nodes "$nodes" "${small[@]}" --json
    is "$(grep -c '"event":"bench"' <<<"$out")" 3 "$kind on $nodes nodes writes three events"
    ok "$kind on $nodes nodes has the values of the formulas" awk -v bus="$bus" '
        function value(key) {
            match($0, "\"" key "\":[-+.e0-9]+")
            return substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3)
        }
        /"event":"bench"/ { n++
            alg = value("size") / value("time_us") / 1000
            d = value("algbw") / alg - 1; b = value("busbw") / (alg * bus) - 1
            if (d * d > 1e-6 || b * b > 1e-6) bad = 1 }
        END { exit bad || n != 3 }' <<<"$out"
}
measures allreduce 2 1
measures allreduce 3 1.333333
measures all-gather 3 0.666667
measures reduce-scatter 2 0.5
measures sendrecv 2 1
measures sendrecv 3 1

run dtctl bench all-gather --nodes 3 --min-bytes 4 --max-bytes 128 --iterations 1
is "$(rows | awk '{ print $1 }' | xargs)" '48 96' \
    'a size that is rounded to the last one has no row'
run dtctl bench sendrecv --nodes 1
ok 'one rank has nobody to send to' test "$status" -ne 0
like "$err$out" 'needs two ranks' 'the error says so'
run dtctl bench allreduc
is "$status" 2 'an unknown collective is refused'
like "$err" "did you mean 'allreduce'" 'the error has the nearest'
run dtctl bench allreduce --min-bytes 2M --max-bytes 1M
is "$status" 2 'sizes the wrong way round are refused'
run dtctl bench allreduce --nodes 2 --set train.collectives=nccl --max-bytes 4k
ok 'NCCL between processors is refused' test "$status" -ne 0
like "$err$out" 'nccl is for GPUs' 'the error is that of training'
run dtctl bench allreduce --nodes 2 --dry-run
is "$status" 0 'a dry run starts nothing'
like "$err" '--bench=allreduce' 'the dry run shows the command'

# ---- from GPU to GPU ----------------------------------------------------------------------------
cuda=$BIN/dttrain-cuda GPU=$BUILD/gpu
if [ -x "$cuda" ] && [ -e "$GPU/libnccl.so.2" ]; then
    # emulated VARIABLE… -- ARGUMENT…: two ranks
    emulated() {
        local variables=()
        while [ "$1" != -- ]; do variables+=("$1") && shift; done
        shift
        run env LD_LIBRARY_PATH="$GPU" DTTRAIN_EMULATED=1 EMU_DEVICES=2 "${variables[@]}" \
            "$BIN/dtrun" --standalone --nproc-per-node 2 --no-python "$cuda" --min-bytes 4KiB \
            --max-bytes 64KiB --factor 16 --iterations 3 --warmup 1 "$@"
    }
    for kind in allreduce all-gather reduce-scatter sendrecv; do
        emulated -- --bench "$kind"
        is "$status" 0 "$kind is measured by NCCL" || diag "$err"
        like "$out" 'from GPU to GPU by NCCL 2\.28\.9' "$kind: the head names NCCL"
        is "$(rows | awk '{ print $7 }' | sort -u)" 0 "$kind by NCCL: nothing is wrong"
    done
    emulated -- --bench allreduce --set train.collectives=host
    is "$status" 0 'allreduce of GPUs is measured through the hosts' || diag "$err"
    like "$out" 'through the memory of the hosts' 'the head says so'
    emulated EMU_NCCL_WRONG=1 -- --bench allreduce
    ok 'a planted wrong sum fails the command' test "$status" -ne 0
    is "$(rows | awk '{ print $7 }' | sort -u)" 1 'the wrong sum is counted on the rank that has it'
    like "$out" 'Out of bounds values : 2 FAILED' 'the last lines count it over all sizes'
else
    skip 1 'the stand-ins for the driver and NCCL, or dttrain-cuda, are not built'
fi
done_testing
