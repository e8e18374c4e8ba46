#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The test runner trusts no test: a crash, a missing plan, a hang or an early end of a script is a
# failure.
source "${0%/*}/../lib.sh"
mkdir -p tests/x build/release/tests/tools
cp "$BUILD/release/tests/tools/reap" build/release/tests/tools/
cp -r "$SRC/tests/run" "$SRC/tests/summary.awk" "$SRC/tests/lib.sh" "$SRC/tests/hosts.sh" tests/

script() { # NAME BODY
    printf '#!/usr/bin/env bash\n%s\n' "$2" >"tests/x/$1.t"
    chmod +x "tests/x/$1.t"
}
runner() { # FILE…
    run env -u TEST_REAPED DTCTL_SRC="$WORK" DTCTL_BUILD="$WORK/build" \
        TEST_SECONDS_MAX="${seconds-60}" tests/run "$@"
    last=$(tail -n 1 <<<"$out")
}
script good 'echo "ok 1 - a"; echo "ok 2 # SKIP no camera"; echo 1..2'
script bad 'echo "ok 1 - a"; echo "not ok 2 - b"; echo 1..2; exit 1'
script crash 'echo "ok 1 - a"; kill -SEGV $$'
script planless 'echo "ok 1 - a"'
script short 'echo 1..3; echo "ok 1 - a"'
script silent 'exit 0'
script absent 'echo "1..0 # SKIP no root"'
script hang 'echo "ok 1 - a"; exec sleep 60'

runner tests/x/good.t
is "$status:$last" '0:1 passed, 0 failed, 1 skipped' 'a success and a skip are counted'
like "$out" '1x no camera' 'a skip is shown with its reason'
runner tests/x/absent.t
is "$status:$last" '0:0 passed, 0 failed, 1 skipped' 'a script skipped as a whole counts'
runner tests/x/bad.t tests/x/good.t
is "$status:$last" '1:2 passed, 1 failed, 1 skipped' 'a failure is counted'
like "$out" 'x/bad.t' 'a failed script is named'
runner tests/x/crash.t
is "$status:$last" '1:1 passed, 1 failed, 0 skipped' 'a crash is a failure'
runner tests/x/planless.t
is "$status:$last" '1:1 passed, 1 failed, 0 skipped' 'a missing plan is a failure'
runner tests/x/short.t
is "$status:$last" '1:1 passed, 1 failed, 0 skipped' 'a plan that is not kept is a failure'
runner tests/x/silent.t
is "$status:$last" '1:0 passed, 1 failed, 0 skipped' 'a script without output is a failure'
script bails 'echo "Bail out! no camera"; exit 255'
runner tests/x/bails.t tests/x/good.t tests/x/bad.t
is "$status:$last" '1:2 passed, 2 failed, 1 skipped' 'a script that bails out ends no other one' ||
    diag "$out"
mkdir -p build/san
cp tests/x/bails.t build/san/test_bails
cp tests/x/good.t build/san/test_good
TEST_JOBS=1 runner "$WORK"/build/san/test_{bails,good}
is "$status:$last" '1:1 passed, 1 failed, 1 skipped' \
    'a compiled program that bails out ends no other one' || diag "$out"
seconds=3 runner tests/x/hang.t
is "$status:$last" '1:1 passed, 1 failed, 0 skipped' 'a script that hangs is a failure'

# Nothing that a test started outlives it, or the runner, however these end.
leaves='setsid sh -c "echo \$\$ >left; exec sleep 600" & while [ ! -s left ]; do sleep 0.01; done'
script leaves "$leaves; echo 'ok 1 - a'; echo 1..1"
script stays "$leaves; echo 'ok 1 - a'; setsid sleep 600"
# shellcheck disable=SC2317 # called by name
no_process() { [ -s left ] && [ ! -e "/proc/$(cat left)" ]; }
runner tests/x/leaves.t
is "$status:$last" '0:1 passed, 0 failed, 0 skipped' 'a test leaves a process'
ok 'the process ends with its test' no_process
rm left
seconds=3 runner tests/x/stays.t
is "$status:$last" '1:1 passed, 1 failed, 0 skipped' 'a test that is stopped at its limit'
ok 'a stopped test leaves no process' no_process
for signal in TERM KILL; do # as `timeout make soak` does it; the kill leaves only orphans
    rm -f left
    (env -u TEST_REAPED DTCTL_SRC="$WORK" DTCTL_BUILD="$WORK/build" tests/run tests/x/stays.t
    true) >out/stopped 2>&1 &
    stopped=$!
    wait_for 20 test -s left
    kill -$signal $stopped
    ok "a runner whose parent is ended by SIG$signal leaves no process" wait_for 40 no_process
done

# Tests that run side by side share no port.
if unshare --net --mount --uts --ipc true 2>/dev/null; then
    listener='import os, socket, sys, time
s = socket.create_server(("127.0.0.1", 4567))
open(sys.argv[1], "w").close()
end = time.monotonic() + 40
while not os.path.exists(sys.argv[2]) and time.monotonic() < end: time.sleep(0.05)
print("1..1"); print("ok 1" if os.path.exists(sys.argv[2]) else "not ok 1")'
    for i in 1 2; do
        script "port$i" "exec python3 -c '$listener' '$WORK/$i' '$WORK/$((3 - i))'"
    done
    TEST_JOBS=2 runner tests/x/port[12].t
    is "$status:$last" '0:2 passed, 0 failed, 0 skipped' 'two tests can listen at one port at once'
    rm build/durations
else
    skip 1 'tests cannot have namespaces of their own here'
fi

# Of many, a few that failed run once more.
for i in 1 2 3 4 5 6 7 8 9; do script "many$i" 'echo "ok 1 - a"; echo 1..1'; done
script worse 'exit 1'
script shaky 'echo 1..1; [ ! -e ran ] || { echo "ok 1 - b"; exit 0; }
touch ran; echo "not ok 1 - b"; echo "# the reason"; exit 1'
runner tests/x/many[1-3].t tests/x/shaky.t
is "$status:$last" '1:3 passed, 1 failed, 0 skipped' 'a few scripts: none runs again'
like "$out" 'x/shaky.t.*not ok 1 - b.*# the reason' 'the reason of a failure is printed at the end'
rm ran
runner tests/x/many?.t tests/x/shaky.t tests/x/absent.t
is "$status:$last" '0:10 passed, 0 failed, 1 skipped' \
    'a script that fails beside others may pass alone'
like "$out" 'Failed beside others, passed alone.*x/shaky.t.*not ok 1 - b.*# the reason.*Skipped:' \
    'a script that passed alone is listed first, with the reason'
runner tests/x/many?.t tests/x/bad.t
is "$status:$last" '1:10 passed, 1 failed, 0 skipped' 'a fault fails again'
runner tests/x/many?.t tests/x/bad.t tests/x/crash.t tests/x/silent.t tests/x/worse.t
is "$status:$(grep -c 'Once more' <<<"$out")" '1:0' 'many failures: none runs again'

# Two queues at a time, each with what took longest in front; the clock's one with priority.
script clock '# Clock: this one
echo "ok 1 - a"; nice >clock
for i in {1..200}; do [ -e slow.end ] && break; sleep 0.1; done
sleep 2; date +%s%N >clock.end; echo 1..1'
script slow 'nice >slow; date +%s%N >slow.begin; echo "ok 1 - a"; echo 1..1; touch slow.end'
runner tests/x/clock.t tests/x/good.t tests/x/slow.t
is "$status:$last" '0:3 passed, 0 failed, 1 skipped' 'two queues run'
result "$(($(cat slow.begin) < $(cat clock.end)))" 'run side by side'
is "$(($(cat slow) - $(cat clock)))" $(($(nice) < 15 ? 5 : 19 - $(nice))) \
    'scripts with a clock run first'
like "$out" 'Seconds: [0-9]+ of a processor; the longest: tests/x/clock.t [0-9]+, ' \
    'the summary has the seconds'
like "$(head -n 1 build/durations)" '^[0-9]+\.[0-9]+ tests/x/clock.t$' 'the durations are kept'
ok 'the durations of earlier runs are kept' grep -q ' tests/x/many1.t$' build/durations

# Longest first: what the last run here says, else what the sources say, also of a built program.
mkdir -p build/san
for i in 1 2 3; do script "order$i" "echo $i >>order; echo 'ok 1 - a'; echo 1..1"; done
cp tests/x/order1.t build/san/test_brief
cp tests/x/order2.t build/san/test_order
printf '%s\n' '9 tests/x/order3.t' '50 san/test_order' >tests/durations
printf '%s\n' '3 tests/x/order3.t' '5 tests/x/order1.t' >build/durations
TEST_JOBS=1 runner tests/x/order{3,1}.t
is "$status:$(xargs <order)" '0:1 3' 'the longest script begins first'
rm order
TEST_JOBS=1 runner "$WORK"/build/san/test_{brief,order}
is "$status:$(xargs <order)" '0:2 1' 'the longest program begins first'
rm order
TEST_JOBS=1 runner tests/x/clock.t tests/x/order3.t "$WORK/build/san/test_order"
is "$status:$(wc -l <order)" '0:2' 'scripts and programs run beside one with a clock'
ok 'the program is kept by its path in the build' grep -q ' san/test_order$' build/durations

# A job of a clock runs other scripts after the last one with a clock has begun.
# shellcheck disable=SC2016 # the scripts expand
meets='touch "$1"; for i in {1..200}; do [ ! -e "$2" ] || break; sleep 0.1; done
[ ! -e "$2" ] || echo "ok 1 - they meet"; echo 1..1'
for i in 1 2; do script "meet$i" "set -- meet$i meet$((3 - i)); $meets"; done
touch slow.end
TEST_JOBS=1 runner tests/x/clock.t tests/x/meet[12].t
is "$status:$last" '0:3 passed, 0 failed, 0 skipped' 'the job of a clock runs other scripts, too'
rm meet?
mv tests/x/meet2.t build/san/test_meet
TEST_JOBS=1 runner tests/x/meet1.t "$WORK/build/san/test_meet"
is "$status:$last" '0:2 passed, 0 failed, 0 skipped' 'a compiled program runs beside scripts'

# The assertions for C and for shell themselves.
cat >c.c <<'EOF'
#include "tests/tap.h"
int main(int argc, char **argv) {
    (void)argv;
    is_int(argc, 1, "int");
    is_str("a\nb", argc > 1 ? "other" : "a\nb", "str");
    is_mem("ab", 2, argc > 1 ? "ac" : "ab", 2, "mem");
    near(1.0, argc > 1 ? NAN : 1.0, 1e-9, "near");
    return done_testing();
}
EOF
ok 'tap.h compiles' gcc -Wall -Wextra -Werror -I"$SRC" -o c c.c -lm
run ./c
is "$status" 0 'C assertions that hold are passed'
run ./c more
is "$status" 1 'C assertions that do not hold fail'
is "$(grep -c '^not ok' <<<"$out")" 4 'all four failures are printed'
like "$out" 'got: "a\\nb" \(3 bytes\)' 'values are shown'
like "$out" 'c.c:4' 'a failed assertion prints its place'

script early "source '$WORK/tests/lib.sh'; ok one true; exit 0"
run env -u TEST_WORK tests/x/early.t
is "$status" 1 'a shell test that ends before done_testing fails'
rm -rf "$(sed -n 's/.*logs are kept in \([^;]*\);.*/\1/p' <<<"$out")"
script false "source '$WORK/tests/lib.sh'; ok one false; is a b two; done_testing"
run env -u TEST_WORK tests/x/false.t
is "$status" 1 'shell assertions that do not hold fail'
is "$(grep -c '^not ok' <<<"$out")" 2 'two shell assertions fail'
kept=$(sed -n 's/.*logs are kept in \([^;]*\);.*/\1/p' <<<"$out")
ok 'the folder with the logs is kept' test -d "${kept:?}"
rm -rf "${kept:?}"
script ends "source '$WORK/tests/lib.sh'; source '$SRC/tests/s3.sh'
    last() { echo '# the last call'; }; at_end last; ok one false; done_testing"
run env -u TEST_WORK tests/x/ends.t
is "$status:$(tail -n 3 <<<"$out" | grep -c 'the last call')" 1:1 \
    'a failure is one with calls for the end, too'
rm -rf "$(sed -n 's/.*logs are kept in \([^;]*\);.*/\1/p' <<<"$out")"
script mine "source '$WORK/tests/lib.sh'; echo text >mine; ok one false; done_testing"
left() { find "$TMPDIR" -maxdepth 1 -name 'dtctl-*' | sort; }
before=$(left)
runner tests/x/mine.t
kept=$(sed -n 's/.*logs are kept in \([^;]*\);.*/\1/p' <<<"$out" | head -n 1)
is "$(cat "${kept:?}/mine")" text 'a folder in memory is kept when its test fails'
rm -rf "${kept:?}"
is "$(left)" "$before" 'nothing else of a run is left'
done_testing
