#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A host that comes back in mid-run with an empty disk, as a machine that replaces a spot instance:
# it has its part of all inputs again, in each way of delivery. Objects of a bucket come by new
# addresses, and an object that has changed since the start is an error.
# shellcheck disable=SC2317 # functions are called by name
source "${0%/*}/../lib.sh"
source "$SRC/tests/s3.sh"
hosts_up 2
hosts_config
WAIT=60 # seconds for anything that takes a few on an idle machine

s3_start ADDRESS=10.77.0.254
mkdir set arch members
for i in 1 2 3 4 5; do head -c $((i * 10000)) /dev/urandom >set/p$i; done
for i in 1 2; do
    echo "member $i" >members/m$i
    tar -C members -cf arch/a$i.tar m$i
done
dtdata put set s3://bucket/set >put.out || bail_out "$(cat put.out)"
dtdata put arch s3://bucket/arch >put.out || bail_out "$(cat put.out)"

# A key that ends in ten minutes is not used again: the second list has another one.
unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
cat >keys.sh <<'END'
#!/bin/sh
case $(cat "$0.which") in
first) key='"AccessKeyId":"AKTEST","SecretAccessKey":"SECRETTEST"' life=590 ;;
*) key='"AccessKeyId":"AKROLE","SecretAccessKey":"SECRETROLE"' life=7200 ;;
esac
printf '{"Version":1,%s,"Expiration":"%s"}' "$key" \
    "$(date -u -d "now + $life seconds" +%Y-%m-%dT%H:%M:%SZ)"
END
chmod +x keys.sh
mkdir -p ~/.aws
printf '[default]\ncredential_process = "%s"\n' "$WORK/keys.sh" >~/.aws/config
echo first >keys.sh.which

cat >read.py <<'END'
import hashlib, os, sys, time, urllib.request
lines = []
def add(name, path, data):
    lines.append(f"{name} {os.path.basename(path)} {hashlib.sha256(data).hexdigest()}\n")
for name in sys.argv[1].split(","):
    urls = os.environ.get(f"DTCTL_INPUT_{name}_URLS")
    if urls:
        for url in open(urls).read().split():
            add(name, url, urllib.request.urlopen(url).read())
        continue
    top = os.environ[f"DTCTL_INPUT_{name}"]
    for path in [top] if os.path.isfile(top) else sorted(
            f"{d}/{f}" for d, _, files in os.walk(top) for f in files):
        add(name, path, open(path, "rb").read())
out = os.environ["DTCTL_OUTPUT_DIR"]
path = f"{out}/{os.environ['RANK']}.{len(os.listdir(out))}"
with open(path + "~", "w") as f:
    f.writelines(lines)
os.rename(path + "~", path)
while not os.path.exists("/root/end"):
    time.sleep(0.1)
END

folder() { compgen -G "$WORK/node$1/root/.dtctl/nodes/node$1/runs/$2-*"; } # HOST NAME
has() { [ -e "$(folder "$1" "$2")/output/$3" ]; }                          # HOST NAME FILE
begin() { # NAME INPUT,INPUT… ARGUMENT…: until both hosts have read all
    name=$1
    dtctl train --name "$name" --nodes 2 --max-restarts 9 --rdzv-conf rejoin_timeout=100 \
        --file read.py "${@:3}" -- python3 read.py "$2" >"$name.out" 2>"$name.err" &
    operator=$!
    ok "$name: the first host has read its inputs" wait_for $WAIT has 1 "$name" 0.0 ||
        diag "$(cat "$name.err")"
    ok "$name: the second host, too" wait_for $WAIT has 2 "$name" 1.0
    cp "$(folder 2 "$name")/output/1.0" "$name.before"
}
losses() { grep -c '"kind":"node-lost"' .dtctl/default/runs/"$name"-*/events.jsonl; }
one_more() { [ "$(losses)" -gt "$1" ]; } # LOSSES
lose_disk() { # of the second host
    local pid before
    before=$(losses)
    for pid in $(host_processes 2 'dtrun-|dtdata-|read.py') $(host_processes 2 sshd); do
        kill -KILL "$pid" 2>/dev/null
    done
    on 2 rm -rf /root/.dtctl
    ok "$name: the loss of the second host is known" \
        wait_for $WAIT one_more "$before"
}

run dtctl up
is "$status" 0 'two hosts are up'

# ---- every way of delivery ----------------------------------------------------------------------
input() { # NAME SOURCE [LINE…]
    printf '[inputs.%s]\nsource = "%s"\n' "$1" "$2"
    [ $# = 2 ] || printf '%s\n' "${@:3}"
}
sharded='mode = "sharded"' by_key='shard = "key"'
{
    input all s3://bucket/set
    input part s3://bucket/set "$sharded" "$by_key"
    input one s3://bucket/set/p3
    input tree s3://bucket/arch 'deliver = "extract"' "$sharded" "$by_key"
    input flow s3://bucket/set 'deliver = "stream"'
    input split s3://bucket/set 'deliver = "stream"' "$sharded" "$by_key"
    input here set 'deliver = "stream"'
} >>dtctl.toml
begin ways ALL,PART,ONE,TREE,FLOW,SPLIT,HERE
want=$(printf '%s\n' ALL\ p{1,2,3,4,5} PART\ p{3,4,5} 'ONE p3' 'TREE m2' FLOW\ p{1,2,3,4,5} \
    SPLIT\ p{3,4,5} HERE\ p{1,2,3,4,5})
is "$(cut -d' ' -f1,2 ways.before)" "$want" 'ways: the second host has its parts'
echo second >keys.sh.which
s3_ask '/-/revoke?key=AKTEST' >/dev/null
s3_ask /-/forget >/dev/null
lose_disk
host_start 2
ok 'ways: the new disk has what the second host needs' wait_for $WAIT has 2 ways 1.0 ||
    diag "$(cat ways.err)"
ok 'ways: the first host is in the round, too' wait_for $WAIT has 1 ways 0.1
is "$(cat "$(folder 2 ways)/output/1.0")" "$(cat ways.before)" \
    'ways: all parts are those of the start'
is "$(s3_ask /-/bytes)" "10.77.0.2 $((150000 + $(stat -c %s arch/a2.tar)))" \
    'ways: the new disk has read each object once, and the other host nothing'
like "$(cat ways.err)" 'node2 reads 6 objects of the inputs \(160 kB\)' \
    'ways: dtctl prints how much the new disk lacks'
on 1 touch /root/end
on 2 touch /root/end
wait $operator
is $? 0 'ways: the run ends well' || diag "$(tail -n 30 ways.err)"
is "$(grep -rlE 'SECRETTEST|SECRETROLE|X-Amz-Signature=' .dtctl node*/root/.dtctl | wc -l)" 0 \
    'ways: no secret and no signed address is left behind'

# ---- an object that has changed -----------------------------------------------------------------
hosts_config
on 1 rm /root/end
on 2 rm /root/end
begin other ALL --input all=s3://bucket/set
head -c 30000 /dev/urandom >set/p3
AWS_ACCESS_KEY_ID=AKROLE AWS_SECRET_ACCESS_KEY=SECRETROLE dtdata put set s3://bucket/set >put.out ||
    diag "$(cat put.out)"
lose_disk
host_start 2
changed="'s3://bucket/set/p3' has changed since the run began.*try: "
ok 'other: an object that has changed is an error, with node, input and name' \
    wait_for $WAIT grep -q "cannot restart .*node=node2 reason=\"input 'all': $changed" other.err ||
    diag "$(cat other.err)"
run dtctl stop other
is "$status" 0 'other: the run is stopped'
wait $operator
ok 'other: the new disk has no other content' test ! -e "$(folder 2 other)/output/1.0"
s3_stop

# ---- one machine after the other ----------------------------------------------------------------
hosts_config
begin often ALL --input all=set
for i in 1 2 3 4; do
    lose_disk
    host_start 2
    ok "often: machine $i after the first one joins" wait_for $WAIT has 1 often 0.$i || {
        diag "$(tail -n 20 often.err)"
        break
    }
done
on 1 touch /root/end
on 2 touch /root/end
wait $operator
is $? 0 'often: the run ends well' || diag "$(tail -n 30 often.err)"
done_testing
