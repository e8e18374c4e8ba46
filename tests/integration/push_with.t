#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dtctl push --with nccl=FILE: the library goes beside the programs of every node, once; other files
# are refused before anything is sent; dttrain-cuda finds the library there.
# shellcheck disable=SC2317 # functions that ok calls
source "${0%/*}/../lib.sh"

dtctl up --nodes 2 >made.log 2>&1 || diag "$(cat made.log)"
with() { run dtctl push --with "$@"; }
programs_in() { compgen -G "$1/dtrun-*" >listed; }
places() { find .dtctl -name libnccl.so.2; }

# ---- refused ------------------------------------------------------------------------------------
# library NAME FUNCTION…: a shared library that has them
library() {
    printf 'void %s(void) {}\n' "${@:2}" | gcc -shared -fPIC -x c -o "$1" -
}
library good.so ncclGetUniqueId ncclCommSplit
library old.so ncclGetUniqueId
library other.so cublasCreate
{ head -c 18 good.so && printf '\267' && tail -c +20 good.so; } >arm.so # EM_AARCH64
head -c 10 good.so >cut.so
: >empty.so
mkfifo pipe.so
refused() { # FILE STATUS PATTERN
    with "nccl=$1"
    is "$status" "$2" "$1 is refused"
    like "$err" "$3" 'the error says why'
}
refused absent.so 1 "'absent.so': No such file"
refused empty.so 1 'is no shared library'
head -c 300 good.so >torn.so
refused torn.so 1 "is not libnccl.so.2"
refused cut.so 1 'is no shared library'
refused "$BIN/dtctl" 1 "is not libnccl.so.2: it has no ncclGetUniqueId"
refused /etc/passwd 1 'is no shared library .try: the file libnccl.so.2 of NCCL 2.18 or newer'
refused arm.so 1 'is for another processor; nodes are x86-64'
refused other.so 1 'is not libnccl.so.2: it has no ncclGetUniqueId'
refused old.so 1 'is too old: it has no ncclCommSplit .try: NCCL 2.18 or newer'
refused . 1 'is no shared library'
refused pipe.so 1 'is no shared library'
refused '' 2 'no file is named .try: --with nccl=FILE'
with cudnn=good.so
like "$status:$err" '^2:.*unknown library .try: --with nccl=FILE' 'another library is refused'
with nccl=good.so --to elsewhere
like "$status:$err" '^2:.*takes neither PATH nor --to' '--to has no meaning here'
run dtctl push
like "$status:$err" '^2:.*PATH is missing' 'push alone names what is missing'
is "$(places)" '' 'nothing was sent'

# ---- sent ---------------------------------------------------------------------------------------
ln -s good.so link.so
with nccl=link.so --dry-run
like "$status:$out" "^0:would send 1 file, .* to 'bin' of 2 nodes" 'a dry run sends nothing'
with nccl=link.so
is "$status" 0 'the file behind a link is sent' || diag "$err"
is "$(places | wc -l)" 2 'both nodes have it'
for place in $(places); do
    ok 'the bytes are those of the file' cmp good.so "$place"
    ok 'the programs lie beside the library' programs_in "${place%/*}"
done
with nccl=good.so
like "$out" 'sent 0 files' 'a second time nothing is sent'
library newer.so ncclGetUniqueId ncclCommSplit ncclCommShrink
with nccl=newer.so --node node1
is "$(for place in $(places); do cmp -s newer.so "$place" && echo new; done)" new \
    'another library replaces it, on the named node'

# ---- used ---------------------------------------------------------------------------------------
GPU=$BUILD/gpu
if [ -x "$BIN/dttrain-cuda" ] && [ -e "$GPU/libnccl.so.2" ]; then
    with "nccl=$GPU/libnccl.so.2"
    is "$status" 0 'the stand-in for NCCL is sent' || diag "$err"
    place=$(places | head -n 1)
    cp "$BIN/dttrain-cuda" "${place%/*}/"
    mkdir driver && cp "$GPU/libcuda.so.1" driver/
    run env LD_LIBRARY_PATH="$WORK/driver" DTTRAIN_EMULATED=1 EMU_DEVICES=2 \
        "$BIN/dtrun" --standalone --nproc-per-node 2 --no-python \
        "${place%/*}/dttrain-cuda" --bench allreduce --max-bytes 4KiB --iterations 1
    is "$status" 0 'dttrain-cuda runs with it' || diag "$err"
    like "$out" "NCCL 2\\.28\\.9 of [^ ]*${place#.}" 'dttrain-cuda takes it from beside the program'
else
    skip 2 'the stand-ins for the driver and NCCL, or dttrain-cuda, are not built'
fi
run dtctl down -y
is "$status:$(places)" '0:' 'down removes it'
done_testing
