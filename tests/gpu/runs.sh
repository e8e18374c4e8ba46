# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# Runs of the trainer for GPUs. Sourced by scripts, after lib.sh: on the stand-in for the driver, or
# by tests/gpu/run with ON_GPU=1 on a GPU. Settings of all runs of a script are in $common.
GPU=$BUILD/gpu
cuda=$BIN/dttrain-cuda
two=("$BIN/dtrun" --standalone --nproc-per-node 2 --no-python)
common=()
if [ -z "${ON_GPU-}" ]; then
    [ -x "$cuda" ] || skip_all 'dttrain-cuda is not built: the compiler of CUDA is not here'
    [ -e "$GPU/libcuda.so.1" ] || bail_out 'the stand-in for libcuda.so.1 is not built'
fi

# on_gpu COMMAND…, with the stand-in
on_gpu() { env LD_LIBRARY_PATH="$GPU" DTTRAIN_EMULATED=1 EMU_DEVICES=4 "$@"; }
# train FOLDER COMMAND… -- KEY=VALUE…: in that folder, which may hold a run to resume
train() {
    local folder=$1 command=() s
    shift
    while [ "$1" != -- ]; do command+=("$1") && shift; done
    shift
    for s in "${common[@]}" "$@"; do command+=(--set "train.$s"); done
    mkdir -p "$folder"
    (cd "$folder" && "${command[@]}" >out 2>&1) || { diag "$(tail -n 5 "$folder/out")" && false; }
}
# dies LOOKS: a command for bash -c that runs its arguments; in the first attempt rank 1 is killed
# behind step 6, if one of so many looks, 10 ms apart, sees that step
dies() {
    # shellcheck disable=SC2016 # for the shells of the ranks
    printf 'if [ $RANK$TORCHELASTIC_RESTART_COUNT = 10 ]; then
    for ((i = 0; i < %d; i++)); do
        ! grep -q "\\"step\\":6," dttrain-output/metrics.jsonl || { kill -9 $$; break; }
        sleep 0.01
    done &
fi 2>/dev/null
exec "$0" "$@"' "$1"
}
# losses FOLDER [EVENT]: of every step, or evaluation
losses() {
    sed -n 's/.*"event":"'"${2-train}"'".*"loss":\([^,}]*\).*/\1/p' \
        "$1"/dttrain-output/metrics.jsonl
}
# close A B BOUND [EVENT [COUNT]]: two folders with the same losses, but for a relative difference;
# so many at least
STEPS_MIN=10
close() {
    paste <(losses "$1" "${4-train}") <(losses "$2" "${4-train}") |
        awk -v bound="$3" -v least="${5-$STEPS_MIN}" '
        { d = $1 - $2; d = d < 0 ? -d : d; n++
          if (NF != 2 || $1 != $1 + 0 || d > bound * $2) { print "# step " n ": " $0; bad = 1 } }
        END { exit bad || n < least }'
}
# small_shapes IMAGES…: a folder of so many small training images each
small_shapes() {
    local images
    for images; do
        dtctl data make-shapes "shapes$images" --images "$images" --test-images 8 --image-size 8 \
            >made.log 2>&1 || diag "$(cat made.log)"
    done
}
# fails COMMAND…: it does, and says nothing here
fails() { ! "$@" >/dev/null; }
