#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dtrun beside torchrun on one machine, 1 to NODES_MAX agents on loopback with a worker each: from
# the first agent's start to the last worker's, with a fixed number of nodes, with a range whose
# nodes all come, and with one where some do not (the default last call of each); from a worker's
# end, and from SIGKILL to a node's agent, to the last worker of the next round; processor time and
# memory of an agent with its worker. Workers are shells: no import is in any figure but torchrun's
# own. -1: not within SECONDS_MAX.
#
#     REPEATS=3 NODES_MAX=8 make bench B=elastic     WHAT='node is lost': that alone
# Functions are called by name:
# shellcheck disable=SC2317,SC2086
source "${0%/*}/../tests/lib.sh"
REPEATS=${REPEATS:-3} NODES_MAX=${NODES_MAX:-8} SECONDS_MAX=60
[ -n "$PYTHON" ] || { echo 'bench_elastic needs a python3 with torch in DTCTL_PYTHON' >&2; exit 1; }
export DTRUN_KEY=bench OUT=$WORK/run
# torchrun's store asks a name server for each client's name, and everybody waits for the answer:
# where there is none, for as short as may be.
export RES_OPTIONS='timeout:1 attempts:1'

# A worker notes when it began, then waits; the first one of the first round fails where that is
# asked. A file, since torchrun rewrites "$$" in arguments.
cat >"$WORK/worker" <<'END'
date +%s%N >"$OUT/start.$$"
while [ ! -e "$OUT/go" ]; do
    if [ "$RANK" = 0 ] && rm "$OUT/fail" 2>/dev/null; then
        date +%s%N >"$OUT/failed"
        exit 1
    fi
    sleep 0.2
done
END

started() { find "$OUT" -name 'start.*' | wc -l; }
# shellcheck disable=SC2317 # wait_for calls it
have() { [ "$(started)" -ge "$1" ]; }
last_ns() { sort -n "$OUT"/start.* | tail -n 1; }
ms_since() { echo $((($(last_ns) - $1) / 1000000)); }

gone() { ! kill -0 "$1" 2>/dev/null; }

agents=()
start() { # WHO NNODES COUNT: that many agents
    local who=$1 i command=(dtrun)
    [ "$who" = dtrun ] || command=("$PYTHON" -m torch.distributed.run)
    agents=()
    rm -rf "$OUT" && mkdir "$OUT"
    port=$((20000 + RANDOM % 10000))
    for ((i = 0; i < $3; i++)); do
        /usr/bin/env time -f '%U %S %M' -o "$OUT/cost.$i" "${command[@]}" --nnodes "$2" \
            --rdzv-backend c10d --rdzv-endpoint "127.0.0.1:$port" --rdzv-id "b$port" \
            --max-restarts 3 --monitor-interval 0.1 --no-python sh "$WORK/worker" \
            >"$OUT/out.$i" 2>&1 &
        agents+=($!)
    done
}
finish() {
    touch "$OUT/go"
    wait "${agents[@]}" 2>/dev/null
}

one_start() { # WHO NNODES COUNT: prints ms
    local begin
    begin=$(date +%s%N)
    start "$1" "$2" "$3"
    if wait_for $SECONDS_MAX have "$3" >&2; then ms_since "$begin"; else echo -1; fi
    finish
}
one_restart() { # WHO: prints ms
    start "$1" 2 2
    wait_for $SECONDS_MAX have 2 >&2 || { echo -1; finish; return; }
    touch "$OUT/fail"
    if wait_for $SECONDS_MAX have 4 >&2; then ms_since "$(cat "$OUT/failed")"; else echo -1; fi
    finish
}
one_loss() { # WHO: prints ms
    local begin i
    start "$1" 2:3 3
    wait_for $SECONDS_MAX have 3 >&2 || { echo -1; finish; return; }
    begin=$(date +%s%N)
    pkill -KILL -P "${agents[2]}" # its parent is time
    if wait_for 30 have 5 >&2; then ms_since "$begin"; else echo -1; fi
    touch "$OUT/go"
    for i in "${agents[@]:0:2}"; do # torchrun's would wait for the one that is gone
        wait_for 3 gone "$i" >&2 || pkill -KILL -P "$i"
    done
    finish
}
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
cost() { cat "$OUT"/cost.* | awk 'NF == 3 { c += $1 + $2; if ($3 > m) m = $3 }
    END { printf "%.2f %d", c / NR, m }'; }

emit() { # WHAT NODES FUNCTION ARGUMENTS…
    local what=$1 nodes=$2 who i value cpu kb cost_dtrun='' cost_torchrun=''
    shift 2
    [[ $what == *"${WHAT-}"* ]] || return 0
    printf '{"bench":"elastic","what":"%s","nodes":%d,"repeats":%d' "$what" "$nodes" "$REPEATS"
    for who in dtrun torchrun; do : >"$who.ms"; done
    for ((i = 0; i < REPEATS; i++)); do
        for who in dtrun torchrun; do
            "$1" "$who" "${@:2}" | tee -a "$who.all" >>"$who.ms"
            read -r cpu kb < <(cost)
            printf -v "cost_$who" '"%s_agent_cpu_s":%s,"%s_agent_kb":%s' "$who" "$cpu" "$who" "$kb"
        done
    done
    for who in dtrun torchrun; do
        value=$(median <"$who.ms")
        printf ',"%s_ms":%d' "$who" "$value"
    done
    printf ',%s,%s}\n' "$cost_dtrun" "$cost_torchrun"
}

for ((n = 1; n <= NODES_MAX; n *= 2)); do
    emit 'first agent to last worker' "$n" one_start "$n" "$n"
done
for ((n = 2; n <= NODES_MAX; n *= 2)); do
    emit "first agent to last worker, 1:$n" "$n" one_start "1:$n" "$n"
done
emit 'first agent to last worker, 1:3' 2 one_start 1:3 2
emit 'worker fails to last worker of the next round' 2 one_restart
emit 'a node is lost to last worker of the next round, 2:3' 3 one_loss
{
    ok 'every agent of dtrun started its worker' test "$(cat dtrun.all)" != '' -a -z \
        "$(grep -e '^-' dtrun.all)"
    done_testing
} >&2
