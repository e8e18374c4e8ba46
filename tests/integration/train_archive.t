#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# outputs.archive: the archives hold the results, are the same for the same files, are whole or not
# there, and never take the place of a file of the run.
# shellcheck disable=SC2016,SC2012 # the workers' shell expands; plain names
source "${0%/*}/../lib.sh"

long=$(printf 'l%.0s' {1..120})
cat >work.sh <<'END'
cd $DTCTL_OUTPUT_DIR
mkdir -p sub empty
echo $RANK >sub/out.$RANK
echo $DTCTL_NODE >differs
[ $RANK != 0 ] || { ln -s sub/out.0 link; echo x >$LONG; echo run >tool; chmod +x tool; }
[ $RANK != 0 ] || head -c 3000000 /dev/zero >zeros
echo weights >$DTCTL_MODEL_DIR/m
echo s >$DTCTL_STATE_DIR/s
[ -z "$OWN" ] || echo own >output.tar.zst
END
dtctl up --nodes 2 >made.log 2>&1 || diag "$(cat made.log)"
newest() { basename "$(ls -d .dtctl/default/runs/* -t | head -n 1)"; }
train() { # NAME FLAGS…: a run with archives; sets id and o
    run dtctl train --env "LONG=$long" --set outputs.archive=tar.zst --name "$@" -- sh work.sh
    id=$(newest)
    o=.dtctl/default/runs/$id/output
}
members() { zstd -dcq "$1" | tar -t | paste -sd' '; }
# shellcheck disable=SC2317 # called through ok
unpacks() { # both archives together are the results folder without the state
    rm -rf unpacked && mkdir unpacked
    zstd -dcq "$o/output.tar.zst" | tar -x -C unpacked
    zstd -dcq "$o/model.tar.zst" | tar -x -C unpacked
    diff -r --no-dereference unpacked "$o" -x state -x '*.tar.zst' -x '.dtctl-run*'
}

run dtctl train --set outputs.archive=zip -- true
like "$status:$err" "2:.*outputs.archive.*'zip'" 'another format is refused'

# ---- what is in them ----------------------------------------------------------------------------
train whole
is "$status" 0 'a run with archives succeeds' || diag "$err"
is "$(members "$o/output.tar.zst")" "empty/ link $long node0/ node0/differs node1/ node1/differs \
sub/ sub/out.0 sub/out.1 tool zeros" 'the output is in order, without model and state'
is "$(members "$o/model.tar.zst")" 'model/ model/m' 'the model has an archive of its own'
like "$out" 'archive +[^ ]*/output/output.tar.zst' 'the last screen names the archives'
like "$(cat ".dtctl/default/runs/$id/summary.json")" '"archived":true' 'summary.json has them'
ok 'unpacked they are the results' unpacks
is "$(stat -c %a unpacked/tool):$(readlink unpacked/link)" '755:sub/out.0' \
    'modes and links are those of the results'
cp "$o"/*.zst .
train whole
ok 'equal files give an equal output' cmp output.tar.zst "$o/output.tar.zst"
ok 'equal files give an equal model' cmp model.tar.zst "$o/model.tar.zst"
train by --merge by-node
is "$(members "$o/model.tar.zst")" 'node0/model/ node0/model/m node1/model/ node1/model/m' \
    'models of the nodes are models, too'
unlike "$(members "$o/output.tar.zst")" 'model' 'models of the nodes are no output'
run dtctl train --input in=run:whole/output -- sh -c 'ls $DTCTL_INPUT_IN'
unlike "$out" 'tar.zst' 'an input from the output has no archive'

# ---- with kinds that stay -----------------------------------------------------------------------
train part --fetch output
is "$(cd "$o" && echo *.zst)" 'output.tar.zst' 'a model that is not here has no archive'
run dtctl fetch "$id"
is "$(cd "$o" && echo *.zst)" 'model.tar.zst output.tar.zst' 'fetch adds the archive of the rest'
unlike "$(members "$o/output.tar.zst")" 'zst' 'no archive is in another one'

# ---- failures -----------------------------------------------------------------------------------
OWN=1 train own --env OWN=1
is "$status" 1 'a file of the run with the name of an archive makes the fetch fail'
like "$err" "without their archives .*dtctl fetch $id.*'output.tar.zst' is a file of the run" \
    'the error names the file'
is "$(cat "$o/output.tar.zst")" own 'the file of the run stays'
mv "$o/output.tar.zst" "$o/own"
like "$(dtctl ps)" "$id.* here, not archived" 'ps names the run'
run dtctl fetch "$id" --dry-run
like "$out" "would archive $id" 'a dry run says what fetch would do'
run dtctl fetch "$id"
is "$status" 0 'fetch writes the archives then' || diag "$err"
like "$(members "$o/output.tar.zst")" ' own ' 'the renamed file is in it'

for n in 2 3; do # the output's archive, the model's
    train full$n
    rm "$o"/*.zst
    sed -i 's/^archives = .*/archives = "begun"/' ".dtctl/default/runs/$id/run.toml"
    run "$BUILD/release/tests/tools/nth_call" -n $n -e ENOSPC -c rename -- \
        dtctl fetch "$id" 3>report
    is "$status" 1 "a disk that is full at archive $((n - 1)) is status 1"
    like "$err" "without their archives.*No space left" 'the error says why'
    is "$(find "$o" -name '*zst*' | wc -l)" $((n - 2)) 'no part of an archive is there'
    run dtctl fetch "$id"
    is "$status $(cd "$o" && echo *.zst)" '0 model.tar.zst output.tar.zst' \
        'fetch writes what is missing' || diag "$err"
done

# ---- dtctl is killed ----------------------------------------------------------------------------
for n in 1 2 3 4 5 6 7 8 9 10; do
    train kill$n --fetch logs
    run "$BUILD/release/tests/tools/nth_call" -n $n -s KILL -c rename,renameat2 -- \
        dtctl fetch "$id" 3>report
    is "$status" 137 "dtctl is killed when it renames a file ($n)"
    run dtctl fetch "$id"
    is "$status $(cd "$o" && find . -name '*zst*' | sort | paste -sd' ')" \
        '0 ./model.tar.zst ./output.tar.zst' 'the next fetch writes both, and no part stays'
    ok 'the archives hold the results' unpacks
done
done_testing
