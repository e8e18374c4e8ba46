#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The output of a generator that failed outlives the next run of `make soak`, and a stopped run.
# shellcheck disable=SC2016,SC2317 # the generators' shell expands; functions are called by name
source "${0%/*}/../lib.sh"
mkdir -p tests/soak build/release/tests/tools
cp "$BUILD/release/tests/tools/reap" build/release/tests/tools/
cp "$SRC"/tests/{run,summary.awk,lib.sh} tests/
cp "$SRC/tests/soak/run" tests/soak/

generator() { # NAME BODY
    printf '#!/usr/bin/env bash\necho "# %s: seed=$SOAK_SEED"\n%s\n' "$1" "$2" >"tests/soak/$1.t"
    chmod +x "tests/soak/$1.t"
}
soak() { # SEED GENERATOR…: in a subshell, which becomes the runner
    exec env -u TEST_REAPED DTCTL_SRC="$WORK" DTCTL_BUILD="$WORK/build" SOAK_SEED="$1" \
        tests/soak/run 1 "${@:2}"
}
in_shell() { (soak "$@"); }
generator good 'echo "ok 1 - a"; echo 1..1'
generator bad 'echo "ok 1 - a"; echo "not ok 2 - b"; echo "# the reason of $SOAK_SEED"; echo 1..2
echo "a word on standard error" >&2; exit 1'
generator crash 'echo "ok 1 - a"; kill -SEGV $$'

run in_shell 7 tests/soak/{good,bad,crash}.t
is "$status" 1 'a generator fails'
kept=(build/soak/*-7.txt)
is "${#kept[@]}" 2 'the outputs of both that failed are kept'
like "$out" 'bad.t failed with seed 7; its output is kept in [^ ]*/build/soak/[0-9TZ]*-bad-7.txt' \
    'the file is named at the end'
bad=(build/soak/*-bad-7.txt)
like "$(cat "${bad[0]}")" 'SOAK_SEED=7 .*not ok 2 - b.*the reason of 7.*word on standard error' \
    'the file has the seed, the points, and standard error'

run in_shell 8 tests/soak/bad.t
like "$(cat "${bad[0]}")" 'the reason of 7' 'the next run leaves the file alone'
rm -r build/soak
run in_shell 9 tests/soak/good.t
is "$status:$(ls build/soak)" '0:' 'a success leaves no file'
like "$out" 'good: seed=9' 'the coverage is printed'

generator slow 'echo "ok 1 - a"; touch began; exec sleep 60'
echo '90 tests/soak/bad.t' >build/durations # the longest begins first
soak 10 tests/soak/{bad,slow}.t >out/stopped 2>&1 &
stopped=$!
wait_for 20 test -e began
kill -TERM $stopped
is_over() { ! kill -0 "$stopped" 2>/dev/null; }
ok 'a stopped run ends' wait_for 20 is_over
ls build/soak >out/kept
ok 'a stopped run keeps what failed before' grep -q 'bad-10.txt$' out/kept
done_testing
