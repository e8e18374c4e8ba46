#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Each rank stays on the processors of its GPU's NUMA node: two nodes of one processor each, made of
# files in a mount namespace, and GPUs of the stand-in that are attached to them in turn.
source "${0%/*}/../lib.sh"
source "${0%/*}/runs.sh"

own=$(awk '$1 == "Cpus_allowed_list:" { print $2 }' /proc/self/status)
IFS=, read -ra cpus < <(awk -v list="$own" 'BEGIN {
    for (n = split(list, part, ","); ++i <= n;)
        for (split(part[i] "-" part[i], end, "-"); end[1] <= end[2]; end[1]++)
            all = all end[1] ","
    print all
}')
[ "${#cpus[@]}" -ge 2 ] || skip_all 'this process may use one processor only'
unshare --mount true 2>/dev/null || skip_all 'no mount namespace can be made here'
mkdir -p node/node{0,1}
echo "${cpus[0]}" >node/node0/cpulist
echo "${cpus[1]}" >node/node1/cpulist

# Writes the masks that the threads of each rank have, as they are last seen, to FOLDER/RANK.
# shellcheck disable=SC2016 # for the shells of the ranks
watched='"$0" "$@" & while masks=$(cat /proc/$!/task/*/status 2>/dev/null) && [ -n "$masks" ]; do
    list=$(sed -n "s/^Cpus_allowed_list:\t//p" <<<"$masks" | sort -u | xargs)
    [ -z "$list" ] || echo "$list" >"${RANK:-0}"
    sleep 0.02
done; wait $!'
# shellcheck disable=SC2016 # for the inner shell
nodes=(unshare --mount bash -c 'mount --bind "$0" /sys/devices/system/node && exec "$@"'
    "$PWD/node")
common=(model=mlp hidden=16 epochs=1 batch=8 train_size=32 test_size=8 dataset=shapes device=gpu)

ok 'two ranks train on GPUs of two nodes' train two on_gpu EMU_NUMA=2 "${nodes[@]}" "${two[@]}" \
    bash -c "$watched" "$cuda" --
is "$(cat two/0)" "${cpus[0]}" 'rank 0 stays on the processor of node 0'
is "$(cat two/1)" "${cpus[1]}" 'rank 1 stays on the processor of node 1'
like "$(cat two/out)" ', on the 1 processor of NUMA node 0' 'the start says so'

ok 'a rank is kept on a processor of another node' train kept on_gpu EMU_NUMA=2 "${nodes[@]}" \
    taskset -c "${cpus[1]}" bash -c "$watched" "$cuda" --
is "$(cat kept/0)" "${cpus[1]}" 'the rank stays where it was put'
unlike "$(cat kept/out)" 'NUMA' 'the start names no node'

ok 'a rank trains on a machine of one node' train one on_gpu "${nodes[@]}" \
    bash -c "$watched" "$cuda" --
unlike "$(cat one/out)" 'NUMA' 'the start names no node here either'
done_testing
