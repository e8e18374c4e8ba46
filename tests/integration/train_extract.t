#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# deliver = extract: archives of an input are unpacked on each node, once for each content, and
# nothing that is hostile, collides or was cut off by a kill is taken for a tree.
# shellcheck disable=SC2016,SC2046,SC2119,SC2317 # workers expand their variables; words; by name
source "${0%/*}/../lib.sh"
source "$SRC/tests/s3.sh"
nodes=.dtctl/default/nodes
trees() { compgen -G "$nodes/*/inputs/$1-*-extracted$2"; } # NAME [PATTERN]
run dtctl up --nodes 2
is "$status" 0 'two nodes are up'

# ---- of this computer ----------------------------------------------------------------------------
mkdir -p set/a m
for i in 1 2 3 4; do
    echo "member $i" >"m/m$i"
    tar -C m -cf "set/a/p$i.tar" "m$i"
done
zstd -q --rm set/a/p2.tar
echo plain >set/plain.txt
cat >dtctl.toml <<'E2'
[inputs.set]
source = "set"
deliver = "extract"
E2
list='cd $DTCTL_INPUT_SET && echo "has $(find . -type f | sort | xargs)"'
run dtctl train --dry-run --shell true
like "$status $err" '^0 .*input +set: 5 files.*archives are unpacked on the nodes' \
    'the plan says it'
run dtctl train --shell "$list; cat a/m2; wc -l <\$DTCTL_INPUT_SET_LIST"
is "$status" 0 'a run succeeds' || diag "$err"
is "$(grep -c '\] has ./a/m1 ./a/m2 ./a/m3 ./a/m4 ./plain.txt$' <<<"$out")" 2 \
    'each node has the members beside their archives, and no archive'
is "$(grep -c '\] member 2$' <<<"$out") $(grep -c '\] 5$' <<<"$out")" '2 2' \
    'members have their content, and the list has the objects'
before=$(stat -c '%n %i %Z' $(trees set))
run dtctl train --shell "$list"
is "$status $(stat -c '%n %i %Z' $(trees set))" "0 $before" 'a second run does not unpack again'
run dtctl train --set inputs.set.mode=sharded --set 'inputs.set.exclude=*.txt' --shell "$list"
is "$status" 0 'a sharded input is unpacked' || diag "$err"
is "$(grep -o '\./a/m[0-9]' <<<"$out" | sort | xargs)" './a/m1 ./a/m2 ./a/m3 ./a/m4' \
    'each archive is unpacked on one node'
run dtctl train --input one=set/a/p1.tar --set inputs.one.deliver=extract --shell \
    'ls $DTCTL_INPUT_ONE'
is "$status $(grep -c '\] m1$' <<<"$out")" '0 2' 'one archive is an input' || diag "$err"
run dtctl train --input one=set/plain.txt --set inputs.one.deliver=extract --shell \
    'cat $DTCTL_INPUT_ONE'
is "$status $(grep -c '\] plain$' <<<"$out")" '0 2' \
    'one file that is no archive is an input' || diag "$err"
mkdir empty bare && echo a >bare/a.txt && echo b >bare/b.txt
run dtctl train --input one=empty --set inputs.one.deliver=extract --shell true
is "$status" 2 'an empty folder is refused by the plan'
like "$err" "input 'one': 'empty' has no files, and deliver = extract expects .tar or .tar.zst" \
    '  with what was expected'
run dtctl train --input one=bare --set inputs.one.deliver=extract --shell 'ls $DTCTL_INPUT_ONE'
is "$status $(grep -c '\] a.txt$' <<<"$out")" '0 2' 'a folder without archives is an input'
like "$err" 'no .tar or .tar.zst file, .*unpacks nothing.* input=one files=2 first="a.txt"' \
    'a warning says that nothing is unpacked'
run dtctl train --set compat.sagemaker=true --shell 'echo "has $(ls $SM_CHANNEL_SET/a | xargs)"'
is "$status $(grep -c '\] has m1 m2 m3 m4$' <<<"$out")" '0 2' \
    'a channel of SageMaker is the tree' || diag "$err"
run dtctl train --name made --shell 'mkdir -p $DTCTL_OUTPUT_DIR; cp $DTCTL_INPUT_SET/a/m1 .;
    [ $RANK = 1 ] || tar -cf $DTCTL_OUTPUT_DIR/r.tar m1'
run dtctl train --input earlier=run:made/output --set inputs.earlier.deliver=extract --shell \
    'cat $DTCTL_INPUT_EARLIER/m1'
is "$status $(grep -c '\] member 1$' <<<"$out")" '0 2' \
    'results of an earlier run are unpacked' || diag "$err"
run dtctl data rm -y set
is "$status $(trees set)" '0 ' 'data rm removes the trees, too'

# ---- of a bucket ---------------------------------------------------------------------------------
s3_start
dtdata put set s3://bucket/x >put.out || bail_out "$(cat put.out)"
for mode in replicated sharded; do
    run dtctl train --set inputs.set.source=s3://bucket/x --set inputs.set.mode=$mode \
        --shell "$list"
    is "$status" 0 "objects are unpacked: $mode" || diag "$err"
    is "$(grep -o '\./a/m[0-9]' <<<"$out" | sort -u | xargs)" './a/m1 ./a/m2 ./a/m3 ./a/m4' \
        'the members are there'
done
s3_stop
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out ca.pem -days 2 -subj /CN=x \
    -addext 'subjectAltName=IP:127.0.0.1' 2>openssl.err
s3_start CERTIFICATE="$WORK/ca.pem" KEY="$WORK/key.pem"
export AWS_ENDPOINT_URL=${S3/http:/https:} SSL_CERT_FILE=$WORK/ca.pem
dtdata put set s3://public/set >put.out || bail_out "$(cat put.out)"
run dtctl train --set inputs.set.source="$AWS_ENDPOINT_URL/public/set/a/p1.tar" --shell "$list"
is "$status $(grep -c '\] has ./m1$' <<<"$out")" '0 2' 'an https address is unpacked' ||
    diag "$err"
s3_stop
unset SSL_CERT_FILE

# ---- refused -------------------------------------------------------------------------------------
refused() { # STATUS WHY OPTION…
    local want=$1 why=$2
    shift 2
    run dtctl train "$@"
    like "$status $err" "^$want .*$why" "the run is refused: $why"
}
mkdir bad
cp set/a/p1.tar bad/a.tar
cp set/a/p1.tar bad/b.tar
bad=(--input bad=bad --set inputs.bad.deliver=extract)
refused 3 "node0.*'bad': archive 'b.tar': member 'm1' is in 'a.tar' as well" "${bad[@]}" \
    --shell true
(cd bad && rm b.tar && tar -Pcf a.tar --transform 's,^,../../,' ../m/m1)
refused 3 "node0.*archive 'a.tar': member '.*' has a name that leads out" "${bad[@]}" \
    --shell true
is "$(trees bad '*')" '' 'nothing of them is written'
touch bad/a.zip
refused 2 "'a.zip': deliver = extract unpacks .tar and .tar.zst, not .zip .try: unzip" "${bad[@]}" \
    --dry-run --shell true
refused 2 'unit = sample deals the members' --set inputs.set.mode=sharded \
    --set inputs.set.unit=sample --dry-run --shell true
refused 2 'the native trainer reads archives as they are' --dry-run

# ---- killed --------------------------------------------------------------------------------------
mkdir many
python3 - <<'E2'
import tarfile
with tarfile.open("many/many.tar", "w") as t:
    for i in range(30000):
        t.addfile(tarfile.TarInfo(f"f/{i}"))
E2
many=(--nodes 1 --input many=many --set inputs.many.deliver=extract)
dtctl train "${many[@]}" --shell true >"$WORK/out/cut.log" 2>&1 &
pid=$!
begun() { trees many '.dtctl-new-*/f'; }
ok 'an archive is being unpacked' wait_for 30 begun
kill -KILL "$(sed 's/^pid \([0-9]*\):.*/\1/' $nodes/node0/tmp/many-*-extracted.lock)"
wait "$pid"
is "$? $(trees many)" '3 ' 'a killed unpack leaves no tree'
run dtctl train "${many[@]}" --shell 'echo "has $(ls $DTCTL_INPUT_MANY/f | wc -l)"'
like "$status $out" '^0 .*has 30000' 'the next run has all of it' || diag "$err"
is "$(trees many '.dtctl-*')" '' 'nothing of the killed one is left'
done_testing
