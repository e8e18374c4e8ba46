#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dtrun shard-range: a node's part of a range of rows, rounded as Python's round does.
source "${0%/*}/../lib.sh"

run dtrun shard-range 1000 --rank 1 --world 6
is "$out" '167 333' 'the second of six parts is printed'
run env DTCTL_SHARD_INDEX=5 DTCTL_SHARD_COUNT=6 dtrun shard-range 1000
is "$out" '833 1000' 'in a run, rank and number of nodes are known'
run dtrun shard-range 0 --rank 0 --world 3
is "$out" '0 0' 'there may be no rows'
run dtrun shard-range 9007199254740992 --rank 1 --world 2
is "$out" '4503599627370496 9007199254740992' 'as many rows as a double counts are possible'
if command -v python3 >/dev/null; then
    python3 -c 'for t in (1, 5, 7, 20, 1001):
    for n in (1, 2, 3, 6, 8):
        for i in range(n):
            print(t, i, n, round(i * t / n), round((i + 1) * t / n))' >wanted
    while read -r total rank world _; do
        echo "$total $rank $world $(dtrun shard-range "$total" --rank "$rank" --world "$world")"
    done <wanted >got
    ok "Python's round gives the same, 100 times" cmp -s wanted got
else
    skip 1 'there is no python3'
fi
refused() { # REGEX ARGUMENT…
    run dtrun shard-range "${@:2}"
    is "$status" 2 "shard-range ${*:2} is refused"
    like "$err" "$1" 'the error has the reason'
}
refused 'give the number of rows'
refused 'give the number of rows' 5 6 --rank 0 --world 1
refused 'outside of a run, --rank and --world' 5
refused 'there is no part 2 of 2' 5 --rank 2 --world 2
refused 'number of rows: .* not a .*number' x --rank 0 --world 1
refused 'number of rows' 9007199254740993 --rank 0 --world 1
refused '--rank: .*-7' 5 --rank=-7 --world 1
run dtrun shard-range --help
is "$status" 0 'there is help'
like "$out" 'halves to the' 'the help says how it rounds'
for words in 'dtrun shard-range 5 --rank 0 --world 1' 'dtrun wait --help' 'dtrun --help' \
    'dtrun --version' 'dtrun --print-completion bash' 'dttrain --help' 'dttrain --version' \
    'dttrain --plan'; do
    run bash -c "$words >/dev/full"
    is "$status" 1 "$words: a full disk is no success"
done
done_testing
