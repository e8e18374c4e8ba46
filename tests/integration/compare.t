#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# compare: in what runs differ, their figures, runs that are not over or damaged, and many runs.
# shellcheck disable=SC2016,SC2317 # the workers' shell expands; called by name
source "${0%/*}/../lib.sh"
runs=.dtctl/default/runs

run dtctl compare
is "$status:$out" 1: 'without runs there is nothing to compare'
like "$err" 'no finished run' 'the message says so'
printf '[metrics]\nloss = "loss=(\\\\S+)"\n' >dtctl.toml
dtctl up --nodes 2 >made.log 2>&1 || diag "$(cat made.log)"
cat >work.sh <<'END'
for i in 1 2 3 4; do echo "loss=$(awk -v i=$i -v l=$1 'BEGIN { print l / i }')"; done
[ "$2" != stay ] || sleep 600
END
train() { # NAME ARGUMENT…
    dtctl train --name "$1" "${@:2}" >train.log 2>&1 || diag "$(cat train.log)"
}
train small --nproc-per-node 1 -- sh work.sh 0.8
run dtctl compare
like "$status:$err" '^1:.*one finished run' 'one run is too few'
train large --nodes 1 --nproc-per-node 1 --env TOKEN=hidden -- sh work.sh 0.4 --lr=3
run dtctl compare
is "$status:$err" 0: 'two runs are compared'
rows() { sed -E 's/ {2,}/|/g' <<<"$out"; }
like "$(rows)" '(^|
)SETTING\|1\|2
task\|small\|large' 'the settings that differ come first'
like "$(rows)" '
command\|sh work.sh 0.8\|sh work.sh 0.4
(files\|.*\|.*
)?nodes\|node\[0-1\]\|node0
' 'the command and the nodes differ'
like "$(rows)" '
--lr\|-\|3
' 'each flag of a command is a setting of its own'
like "$(rows)" '
env.TOKEN \(digest\)\|-\|[0-9a-f]{12}
' 'a variable is compared by digest'
ok 'no value of a variable is shown or kept' \
    sh -c '! grep -rq hidden "$1"/*/run.toml && ! grep -q hidden' - $runs <<<"$out"
like "$out" '[0-9]+ settings are equal' 'the equal settings are counted'
kept=$(sed -n '/env_digests/,/^\[/p' $runs/large-*/run.toml | grep -o '[0-9a-f]\{16,\}')
unlike "$(printf 'TOKEN\0hidden' | sha256sum)" "${kept:-none}" \
    'a value cannot be guessed from its digest without the key'
is "$(stat -c '%a %s' .dtctl/default/digest.key)" '600 64' '  which only the user can read'
unlike "$out" 'train.max_restarts' 'the equal settings are left out'
like "$(rows)" '
loss last\|0.2 \(value [4-8]\)\|0.1 \(value 4\)
loss min\|0.2 \(value [0-9]\)\|0.1 \(value 4\)
loss max\|0.8 \(value [1-5]\)\|0.4 \(value 1\)' 'a metric has its last, smallest and largest value'
like "$(rows)" '
ranks\|2\|1
' 'the figures have the ranks'
run dtctl compare small large --all
like "$out" 'train.max_restarts' '--all shows the equal settings'
run dtctl compare small large --sort loss
like "$(rows)" '
task\|large\|small' '--sort orders the runs by a metric'
run dtctl --json compare small large
is "$(grep -c '"event":"compared"' <<<"$out") $(grep -c '"event":"differences"' <<<"$out")" '2 1' \
    '--json has an event for each run, and the differences'
ok 'each line is valid JSON' python3 -c 'import json, sys
for line in sys.stdin: json.loads(line)' <<<"$out"

# ---- refused
for words in small 'small small' 'small nothing' 'small large --metric acc'; do
    # shellcheck disable=SC2086 # words
    run dtctl compare $words
    like "$status:$out" '^[12]:$' "'$words' is refused"
done
like "$err" "none of these runs has a metric 'acc'" 'an unknown metric is named'

# ---- a run that is not over
dtctl train --name active --nodes 1 --nproc-per-node 1 -- sh work.sh 1 stay >active.log 2>&1 &
follower=$!
ok 'the run prints its metrics' wait_for 20 sh -c "grep -qs loss $runs/active-*/metrics.jsonl"
active=$(basename $runs/active-*)
run dtctl compare small "$active"
is "$status:$err" 0: 'a run that is not over is compared'
like "$out" 'not over, as far as this side knows' 'the active run is marked'
like "$(rows)" '
state\|finished\|[a-z]+, not over' 'its state says so'
dtctl stop "$active" >stop.log 2>&1
wait $follower

run dtctl compare small active
is "$status:$err" 0: 'a task whose only run was stopped is compared'
like "$out" "
2    $active +[^ ]*
 +it is 'stopped', not finished" '  and its run and its end are named'

# ---- damaged files
train broken --nproc-per-node 1 -- sh work.sh 2
broken=$(basename $runs/broken-*)
printf '{"name":"loss","value":1e999}\n\033[31m{{\n{"name":"loss","value":"text"}\n{"event":"x"' \
    >>"$runs/$broken/metrics.jsonl"
echo '{"run":"other"}' >"$runs/$broken/summary.json"
rm -f "$runs/$broken/inputs.json"
run dtctl compare small broken
is "$status" 0 'a run with damaged files is compared'
like "$out" 'summary.json is of another run' 'a foreign summary is named'
like "$out" 'metrics.jsonl: 3 lines have no metrics, the first is line 10' 'bad lines are counted'
ok 'no control byte comes to the terminal' sh -c '! LC_ALL=C grep -q "[[:cntrl:]]" - ' <<<"$out"
echo 'state = [' >"$runs/$broken/run.toml"
run dtctl compare small large broken
like "$status:$out" "^1:.*left out: " 'a run whose record is damaged is left out'
like "$(rows)" 'loss last' 'the others are shown all the same'
like "$err" 'the record of 1 run cannot be read' 'the error counts it'
rm -r "${runs:?}/$broken"

# ---- many runs
large=$(basename $runs/large-*)
awk 'BEGIN { for (i = 1; i <= 10000; i++)
    printf "{\"time_ms\":%d,\"node\":\"node0\",\"name\":\"loss\",\"value\":%g}\n", i, 1 / i
}' >many.jsonl
for i in {100..199}; do
    cp -r "$runs/$large" "$runs/${large%??????}many$i"
    sed -i "s/$large/${large%??????}many$i/" "$runs/${large%??????}many$i/"{run.toml,summary.json}
    cp many.jsonl "$runs/${large%??????}many$i/metrics.jsonl"
done
began=$EPOCHREALTIME
# shellcheck disable=SC2046 # a word for each
run dtctl compare $(cd $runs && echo *many*)
diag "a million lines of a hundred runs: $(awk -v a="$began" -v b="$EPOCHREALTIME" \
    'BEGIN { printf "%.2f", b - a }') s"
is "$status" 0 'a hundred runs are compared'
is "$(grep -cE '^[0-9]+ +finished.*\(value 10000\)' <<<"$out")" 100 'each has a row of figures'
done_testing
