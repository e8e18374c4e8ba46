#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Signed addresses of streamed inputs end with the key that signed them. The dtctl that follows the
# run sends new ones, also a dtctl that began to follow later; a run without any is stopped with the
# reason before a read fails.
# shellcheck disable=SC2317 # functions are called by name
source "${0%/*}/../lib.sh"
source "$SRC/tests/s3.sh"

s3_start PAGE=4
mkdir set
for i in 0 1 2 3 4 5; do head -c 6000000 /dev/urandom >"set/part-$i.tar"; done
dtdata put set s3://bucket/set >put.out || bail_out "$(cat put.out)"
unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY

# The first key ends soon; s3.py refuses its addresses once the job says so. The next one lasts.
cat >keys.sh <<'END'
#!/bin/sh
echo x >>"$0.runs"
if [ "$(wc -l <"$0.runs")" = 1 ] || [ -e "$0.always" ]; then key=AKTEST life=$(cat "$0.life"); fi
[ -n "$key" ] || key=AKROLE life='now + 2 hours'
printf '{"Version":1,"AccessKeyId":"%s","SecretAccessKey":"SECRET%s","Expiration":"%s"}' \
    $key "${key#AK}" "$(date -u -d "$life" +%Y-%m-%dT%H:%M:%SZ)"
END
chmod +x keys.sh
mkdir -p ~/.aws
printf '[default]\ncredential_process = "%s"\n' "$WORK/keys.sh" >~/.aws/config
cat >dtctl.toml <<'END'
[inputs.set]
source = "s3://bucket/set"
deliver = "stream"
window = "1"
END
cat >read.py <<'END'
import glob, hashlib, os, sys, time, urllib.request
urls = open(os.environ["DTCTL_INPUT_SET_URLS"]).read().split()
out = open(os.environ["DTCTL_OUTPUT_DIR"] + "/sums", "w")
def read(url):
    out.write(hashlib.sha256(urllib.request.urlopen(url).read()).hexdigest() + "\n")
read(urls[0])
urllib.request.urlopen(sys.argv[1] + "/-/revoke?key=AKTEST").read()
while not glob.glob(sys.argv[2]):
    time.sleep(0.05)
for url in urls[1:]:
    read(url)
END
events() { cat .dtctl/default/nodes/*/runs/"$(newest_id "$1")"/events.jsonl; }
renewed() { events "$1" 2>/dev/null | grep -q '"what":"renewed"'; }
announce() { # RUN: the job continues when its addresses are renewed
    wait_for 40 renewed "$1" && touch "$1.go"
}

# ---- renewed ------------------------------------------------------------------------------------
dtctl up --nodes 1 >made.log 2>&1 || diag "$(cat made.log)"
renews() { # NAME COMMAND…: the addresses are renewed while the command follows the run
    local name=$1
    shift
    rm -rf .dtctl/default/nodes/*/cas && rm -f keys.sh.runs
    s3_ask /-/revoke >/dev/null
    echo 'now + 604 seconds' >keys.sh.life
    announce "$name" &
    "$@"
    wait $!
    is "$status" 0 "$name: ranks read on with new addresses" || diag "$out$err$(events "$name")"
    like "$(events "$name")" '"what":"ends".*"what":"renewed"' "$name: addresses are asked for"
    is "$(sort "$(newest_run "$name")"/output/sums)" "$(sha256sum set/* | cut -d' ' -f1 | sort)" \
        "$name: every byte is read"
    is "$(grep -rlE 'SECRETTEST|SECRETROLE|X-Amz-Signature=' .dtctl | wc -l)" 0 \
        "$name: no signed address is left behind"
}
on() {
    run dtctl train --name on -- python3 read.py "$S3" "$WORK/on.go"
}
renews on on
is "$(wc -l <keys.sh.runs)" 2 'one key was found for each list'

re() {
    run dtctl train --detach --name re -- python3 read.py "$S3" "$WORK/re.go"
    run dtctl logs -f "$(newest_id re)"
    local seen=$status
    dtctl fetch "$(newest_id re)" >fetch.log 2>&1
    status=$seen
}
renews re re

# ---- without a dtctl -----------------------------------------------------------------------------
rm -rf .dtctl/default/nodes/*/cas
s3_ask /-/revoke >/dev/null
s3_ask '/-/hold?key=*-5.tar' >/dev/null
touch keys.sh.always
echo 'now + 65 seconds' >keys.sh.life
dtctl train --detach --name off -- sleep 100 >alone.log 2>&1
ended() { events off | grep -qE '"kind":"(stopped|failed|finished)"'; }
ok 'a run that no dtctl follows ends before its addresses do' wait_for 30 ended
like "$(events off)" '"what":"over".*signed addresses of input .set. end within 60 s' \
    'the event has the reason'
run dtctl fetch "$(newest_id off)"
like "$err$out" 'signed addresses of input .set. end within 60 s.*try: leave dtctl train attached' \
    'dtctl says why the run has ended' || diag "$out$err"
s3_ask /-/release >/dev/null
run dtctl train --name all -- sleep 1
is "$status" 0 'a run that has all its objects goes on' || diag "$out$err"
unlike "$(events all)" '"what":"over"' 'objects on the node need no address'
dtctl down -y >down.log 2>&1
done_testing
