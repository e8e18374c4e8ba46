#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Foreign connections to every port of an agent take all slots, send partial messages, or wrong
# lengths. Members keep their slots and get new ones; memory and logs stay small.
# Clock: the cost for an agent, and whether its members are silent.
# Texts are expanded by workers, functions are called by name:
# shellcheck disable=SC2016,SC2317
source "${0%/*}/../lib.sh"
command -v python3 >/dev/null || skip_all 'the strangers are written in Python'
port=$((20000 + RANDOM % 10000))
LINES_MAX=20 KILOBYTES_MAX=150000
listens() { (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; }
crowd=
strangers() { # KIND TARGET COUNT: until they leave
    python3 "$SRC/tests/integration/dtrun_hostile.py" "$@" 600 >crowd.out 2>crowd.err &
    crowd=$!
    ok "foreign connections arrive: $1" \
        wait_for 60 grep -q ready crowd.out || diag "$(cat crowd.err)"
}
they_leave() {
    kill "$crowd"
    wait "$crowd" 2>/dev/null
}
ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }
peak_kb() { awk '/^VmHWM/ { print $2 }' "/proc/$1/status"; }
c10d=(--nnodes 2 --rdzv-backend c10d --rdzv-id x --no-python)

# ---- few descriptors ----------------------------------------------------------------------------
one_of() { # DESCRIPTORS: an agent that waits for another one, as $agent
    port=$((port + 1))
    (ulimit -n "$1" && exec dtrun "${c10d[@]}" --rdzv-endpoint "127.0.0.1:$port" true) 2>one.err &
    agent=$!
    ok "an agent with $1 descriptors listens" wait_for 20 listens
}
quiet() { # it neither spins nor fills its log
    local before
    before=$(ticks "$agent")
    sleep 1.5
    ok 'the agent does not spin' test $(($(ticks "$agent") - before)) -lt 60
    ok 'the agent writes few log lines' test "$(grep -c . one.err)" -le $LINES_MAX ||
        diag "$(head one.err)"
}
one_of 64
strangers silent "127.0.0.1:$port" 100
ok 'the agent logs that it closes the oldest connection' \
    wait_for 20 grep -q 'closing the oldest unauth.*limit=32' one.err
quiet
run timeout 60 dtrun "${c10d[@]}" --rdzv-endpoint "127.0.0.1:$port" true
wait "$agent"
is "$status $?" '0 0' 'a member joins among foreign connections' || diag "$err$(cat one.err)"
they_leave
# ---- floods of greetings ------------------------------------------------------------------------
port=$((port + 1))
export DTRUN_KEY=k
member() { # WHO FLAGS…
    local who=$1
    shift
    (ulimit -n 256 && exec dtrun "${c10d[@]}" --rdzv-endpoint "127.0.0.1:$port" --max-restarts 9 \
        --rdzv-conf silence=5 "$@" sh -c 'echo "$MASTER_PORT" >>ports.new
        while [ ! -e finish ]; do sleep 0.1; done') 2>>"$who.err" &
    members[$who]=$!
}
rounds() { [ "$(grep -c . ports.new 2>/dev/null)" -ge "$1" ]; }
declare -A members
for kind in half drip frame random mixed; do
    rm -f ./*.err ports.new finish
    member first
    wait_for 20 listens
    member second
    ok "$kind: a round has two members" wait_for 30 rounds 2
    strangers $kind "127.0.0.1:$port" 300
    kill -KILL "${members[second]}"
    wait "${members[second]}" 2>/dev/null
    member second
    ok 'a member that is started again gets its place' wait_for 60 rounds 4 ||
        diag "$(tail -n 5 first.err second.err)"
    ok 'memory is bounded' test "$(peak_kb "${members[first]}")" -lt $KILOBYTES_MAX
    touch finish
    wait "${members[first]}"
    status=$?
    wait "${members[second]}"
    is "$status $?" '0 0' 'the run finishes' || diag "$(tail -n 5 first.err second.err)"
    they_leave
    diag "$(tail -n 1 crowd.out)"
    ok "the agent's log is short" test "$(grep -c . first.err)" -le $LINES_MAX ||
        diag "$(head first.err)"
done

# ---- the workers' store -------------------------------------------------------------------------
rm -f ports.new finish
(exec dtrun --standalone --no-python sh -c 'echo "$MASTER_PORT" >ports.new
    while [ ! -e finish ]; do sleep 0.1; done') 2>store.err &
agent=$!
ok 'a store starts' wait_for 30 test -s ports.new
strangers store "127.0.0.1:$(cat ports.new)" 100
sleep 2
ok 'lengths of 2^61 and millions of names: memory is bounded' \
    test "$(peak_kb "$agent")" -lt $KILOBYTES_MAX
ok 'the store writes few log lines' test "$(grep -c . store.err)" -le $LINES_MAX ||
    diag "$(head store.err)"
like "$(cat store.err)" 'store: a client was closed reason=.*(is longer|more) than' \
    'the log has the reason of a closed connection'
touch finish
wait "$agent"
is "$?" 0 'the run finishes'
they_leave

# ---- health checks and commands -----------------------------------------------------------------
rm -f finish
port=$((port + 1))
TORCHELASTIC_HEALTH_CHECK_PORT=$port dtrun --standalone --no-python sh -c \
    'while [ ! -e finish ]; do sleep 0.1; done' 2>health.err &
agent=$!
ok 'the health checks are served' wait_for 20 listens
strangers http "127.0.0.1:$port" 200
healthy() ( # a closed connection ends the subshell by SIGPIPE
    exec 3<>"/dev/tcp/127.0.0.1/$port" && printf 'GET / HTTP/1.1\r\n\r\n' >&3 &&
        timeout 5 head -n 1 <&3 | grep -q '200 OK'
)
heard=0
# Up to 64 foreign connections may come before a check has sent its request; the oldest one makes
# room for them.
for ((i = 0; i < 20; i++)); do
    ! { healthy || healthy || healthy; } 2>/dev/null || heard=$((heard + 1))
done
ok "checks between them that are tried three times are answered ($heard of 20)" \
    test $heard -ge 18
touch finish
wait "$agent"
is "$?" 0 'the run finishes'
they_leave
printf '[cluster]\nprovider = "local"\nnodes = 1\n' >dtctl.toml
run dtctl train --detach -- sleep 600
control=$(find .dtctl -name control.sock)
ok 'a run has a door for commands' test -S "$control"
strangers line "$control" 100
run timeout 60 dtctl stop
is "$status" 0 'a command between theirs is heard' || diag "$err"
they_leave
run dtctl down -y --force
done_testing
