#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dtrun wait: blocks until other processes have written a file.
# shellcheck disable=SC2016 # the workers' shell expands
source "${0%/*}/../lib.sh"

echo x >here
mkdir folder
run dtrun wait here folder
is "$status:$out$err" 0: 'a file and a folder that are there are not waited for'
run dtrun wait --timeout 200ms here none
is "$status" 1 'a path that does not come ends with status 1'
like "$err" "dtrun: wait: 'none' is not there: it does not exist" 'the error has the path'
exec 7>>here
run dtrun wait --timeout 500ms here
like "$status $err" "^1 .*'here' is not there: a process writes it" \
    'a file that is open for writing is not there'
dtrun wait --timeout 1m here 7>&- &
waiter=$!
exec 7>&-
wait "$waiter"
is "$?" 0 'the wait ends when its writer closes the file'

# Rank 1 needs what rank 0 writes slowly.
run dtrun --standalone --nproc-per-node 2 --no-python bash -c 'if [ "$RANK" = 0 ]; then
    exec >"$0"; for i in $(seq 10); do echo $i; sleep 0.05; done
else
    dtrun wait --timeout 1m "$0" && wc -l <"$0" >"$0.lines"
fi' "$WORK/words"
is "$status $(cat words.lines)" '0 10' 'a rank waits until another one has written a file'

run dtrun wait
like "$status $err" '^2 .*give a path' 'no path is refused'
run dtrun wait --timeout soon here
like "$status $err" '^2 .*--timeout' 'a time that is none is refused'
run dtrun wait --help
like "$status $out" '^0 .*open for writing' 'there is help'
done_testing
