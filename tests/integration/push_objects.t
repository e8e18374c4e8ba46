#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dtdata by itself: a folder to a bucket and back, signatures and faults of a server on loopback,
# and two real servers of the S3 protocol, SeaweedFS and rclone, which `make setup` fetches.
source "${0%/*}/../lib.sh"
source "$SRC/tests/s3.sh"

mkdir -p src/a/deep store
head -c 20000000 /dev/urandom >src/big.bin
head -c 700000 /dev/urandom >src/middle
printf 'odd\n' >'src/a/deep/x=+ü *&<.txt'
: >src/a/empty
for i in 1 2 3 4 5 6 7; do head -c $((i * 900)) /dev/urandom >src/a/part-$i; done
BIG_SUM=$(sha256sum <src/big.bin | cut -d' ' -f1)
sums() { (cd "$1" && find . -type f -exec sha256sum {} + | awk '{ print $1 }' | sort); }
# The hashes that `get` reports are those of the files.
got() { sed -n 's/.*"sha256":"\([0-9a-f]*\)".*/\1/p' | sort; }
list() { dtdata list "$@" >list.out; }
get() { run dtdata get store <list.out; }

round() { # NAME: the same with any server, whose bucket is there
    run dtdata put src s3://bucket/some/pre+fix/
    like "$out" '"end":11}$' "$1 takes all files of a folder"
    ok "$1 lists them" list s3://bucket/some/pre+fix
    is "$(grep -c '"path"' list.out)" 11 "$1 lists each of them"
    rm -rf store && mkdir store
    get
    is "$(got <<<"$out")" "$(sums src)" "$1 gives every byte back"
    get
    like "$out" '"read":0,' "$1 is not asked again for what is there"
    run env AWS_SECRET_ACCESS_KEY=wrong dtdata list s3://bucket/some/
    like "$out" '"code":"auth".*403' "$1 refuses another key"
}

s3_start PAGE=3
round 'a server with short pages'

# ---- what is a folder ---------------------------------------------------------------------------
list s3://bucket/some/pre+fix/middle
like "$(cat list.out)" '"folder":false.*"path":"middle"' 'a key is one object'
run dtdata list s3://bucket/some/pre
like "$out" 'not-found.*s3://bucket/some/pre/ has no object' 'a prefix ends at a slash'
run dtdata list s3://elsewhere/x
like "$out" 'not-found.*NoSuchBucket' 'a bucket has to be there'

# ---- reading ------------------------------------------------------------------------------------
read_big() { # NAME: reads big.bin into an empty store
    list s3://bucket/some/pre+fix/big.bin
    rm -rf store && mkdir store
    s3_ask /-/forget >/dev/null
    get
}
BIG=some/pre%2Bfix/big.bin
read_big
is "$(s3_ask /-/log | grep -c 'bytes=.* 206$')" 3 'a large object is read by ranges'
is "$(find store -name "$BIG_SUM" | wc -l)" 1 \
    'a large object lies in the store under its hash'
# A transfer that stalls for 30 s is looked at when the other cases are through.
mkdir stalled still
ln src/big.bin still/
dtdata put still s3://bucket/still >put.out
s3_fault stall still/big.bin
list s3://bucket/still/big.bin
dtdata get stalled <list.out >stalled.out &
stalled=$!
# shellcheck disable=SC2317 # wait_for calls it
stalls() { ! s3_ask /-/faults | grep -q stall; }
ok 'a transfer stalls' wait_for 10 stalls
for kind in slow reset error; do
    s3_fault $kind $BIG 2
    read_big
    like "$out" '"again":[23]\}' "after a fault the server is asked again ($kind)"
    is "$(got <<<"$out")" "$BIG_SUM" \
        "after a fault the object comes whole ($kind)"
done
s3_fault called $BIG 9
read_big
is "$(got <<<"$out")" "$BIG_SUM" 'a range that comes as 200 is taken for a range'
is "$(s3_ask /-/log | grep -c 'bytes=.* 200$')" 3 'three ranges came as 200'
s3_fault whole $BIG
read_big
is "$(got <<<"$out")" "$BIG_SUM" 'a server without ranges will do'
is "$(s3_ask /-/log | grep -c '/some/.*big')" 1 'one request reads it'
s3_fault bytes $BIG
read_big
like "$out" '"code":"hash".*big.bin.*MD5|"i":0' 'wrong bytes are noticed, or have no MD5'
s3_fault short $BIG
read_big
like "$out" "error.*big.bin': the server sent [0-9]+ bytes of" 'a short range is an error'
s3_fault denied $BIG
read_big
like "$out" '"code":"auth".*big.bin.*403 AccessDenied.*request R1' 'a refusal has its request'
s3_fault bare '' 9
s3_fault bare some/pre%2Bfix/middle 9
list s3://bucket/some/pre+fix/middle
rm -rf store && mkdir store
get
like "$out" '"i":0' 'ETags without quotes will do'
rm -rf store && mkdir store
s3_fault bytes some/pre%2Bfix/middle
get
like "$out" '"code":"hash".*the received bytes have the MD5' \
    'an ETag without quotes is compared with the bytes'
s3_fault slow '' 0
s3_fault bytes some/pre%2Bfix/middle
list s3://bucket/some/pre+fix/middle
get
like "$out" '"code":"hash".*middle.*the received bytes have the MD5' \
    'an object with an MD5 is compared with it'

# ---- regions, clocks and disks ------------------------------------------------------------------
run dtdata put src/a s3://far/a
like "$out" '"end":9' 'a bucket of another region is written there'
list s3://far/a/part-1
like "$(cat list.out)" '%2Feu-far-1%2F' 'addresses are signed for the region that the server names'
rm -rf store && mkdir store
get
like "$out" '"i":0' 'an object of another region is read'
s3_ask '/-/clock?ahead=7200' >/dev/null
run dtdata list s3://bucket/some/
s3_ask '/-/clock?ahead=0' >/dev/null
now='[0-9]{4}-[0-9-]+T[0-9:.]+Z'
like "$out" "the clock of this computer has $now, that of the server $now .try: set it" \
    'a clock that is two hours late is named with both times'
list s3://bucket/some/pre+fix/big.bin
rm -rf store && mkdir store
s3_ask /-/forget >/dev/null
run dtdata get store < <(sed 's/"size":20000000/"size":9000000000000000/' list.out)
like "$out" 'the disk has .* free, and the input needs 9.0 PB' \
    'an object that the disk does not hold is refused with both sizes'
is "$(s3_ask /-/log | grep -c '/some/.*big')" 0 'nothing of it is read'

# An interrupted read continues.
list s3://bucket/some/pre+fix/big.bin
rm -rf store && mkdir store
s3_fault denied $BIG
get
s3_ask /-/forget >/dev/null
get
is "$(got <<<"$out")" "$BIG_SUM" 'a read continues after an error'

# It changes between list and read.
list s3://bucket/some/pre+fix/
rm -rf store && mkdir -p store two
head -c 20000000 /dev/urandom >two/big.bin
dtdata put two s3://bucket/some/pre+fix >/dev/null
get
like "$out" "big.bin': it has changed since it was listed" 'a changed object is an error'

# A tampered address, one that is cut off, and a list that is.
list s3://bucket/some/pre+fix/middle
rm -rf store && mkdir store
sed -i 's/X-Amz-Expires=86400/X-Amz-Expires=86401/' list.out
get
like "$out" '403 SignatureDoesNotMatch' 'an address cannot be changed'
head -n 2 list.out >cut.out
run dtdata get store <cut.out
like "$out" 'was cut off' 'half a list is none'
unlike "$(cat list.out)" SECRETTEST 'the list has no secret'

wait "$stalled"
is "$?" 0 'a transfer that stalls ends well' || diag "$(cat stalled.out)"
is "$(got <stalled.out)" "$BIG_SUM" 'after 30 s without a byte its range comes again'
like "$(tail -n 1 stalled.out)" '"again":1\}' 'one request was made again'

# ---- credentials --------------------------------------------------------------------------------
mkdir -p "$HOME/.aws"
printf '[lab]\naws_access_key_id=AKTEST\naws_secret_access_key=SECRETTEST\n' \
    >"$HOME/.aws/credentials"
printf '[profile lab]\nregion=eu-lab-1\nendpoint_url=%s\n' "$S3" >"$HOME/.aws/config"
# shellcheck disable=SC2317 # run calls it
bare() { env -u AWS_ACCESS_KEY_ID -u AWS_SECRET_ACCESS_KEY -u AWS_ENDPOINT_URL "$@"; }
run bare AWS_PROFILE=lab dtdata list s3://bucket/
like "$out" 'eu-lab-1.*"end":' 'a profile gives key, region and server'
run bare dtdata list s3://bucket/
like "$out" '"code":"auth".*no AWS credentials' 'without a key it says where it looked'
run bare -u AWS_EC2_METADATA_DISABLED AWS_ENDPOINT_URL="$S3" \
    AWS_EC2_METADATA_SERVICE_ENDPOINT="$S3/-/role/" dtdata list s3://bucket/
like "$out" 'AKROLE%2F[0-9]*%2Feu-test-1.*Security-Token=TOKEN.*"end":' \
    "an instance's role gives key, token and region"
s3_stop

# ---- https --------------------------------------------------------------------------------------
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out ca.pem -days 2 -subj /CN=x \
    -addext 'subjectAltName=IP:127.0.0.1' 2>openssl.err
s3_start CERTIFICATE="$WORK/ca.pem" KEY="$WORK/key.pem"
export AWS_ENDPOINT_URL=${S3/http:/https:} SSL_CERT_FILE=$WORK/ca.pem
run dtdata put src s3://public/files
like "$out" '"end":11' 'a certificate of one'\''s own is taken'
ok 'an https address is one object' list "$AWS_ENDPOINT_URL/public/files/big.bin"
like "$(cat list.out)" '"folder":false.*"path":"big.bin".*"size":20000000' \
    'the size of an https address is known'
rm -rf store && mkdir store
get
is "$(got <<<"$out")" "$BIG_SUM" 'an https address is read'
ok 'an empty file is one, too' list "$AWS_ENDPOINT_URL/public/files/a/empty"
run env SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt dtdata list \
    "$AWS_ENDPOINT_URL/public/files/big.bin"
like "$out" 'error.*certificate' 'an unknown certificate is refused'
run dtdata list "$AWS_ENDPOINT_URL/public/files/none"
like "$out" 'not-found.*404' 'a wrong address is named'
s3_stop
unset SSL_CERT_FILE

# ---- a real server -------------------------------------------------------------------------------
# ports N: free ones
ports() {
    python3 -c 'import socket, sys
held = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*[s.getsockname()[1] for s in held])' "$1"
}
# shellcheck disable=SC2317 # ok calls it
serving() { # PORT COMMAND…
    export AWS_ENDPOINT_URL=http://127.0.0.1:$1
    "${@:2}" >peer.out 2>&1 &
    S3_PID=$!
    wait_for 60 bash -c 'dtdata list s3://bucket/ | grep -qE "NoSuchBucket|no object|Denied"'
}
export AWS_REGION=us-east-1
unset SSL_CERT_FILE
if [ -n "${DTCTL_TEST_OBJECTS-}" ]; then
    mkdir -p served/bucket
    port=$(ports 1)
    ok 'rclone begins' serving "$port" "$DTCTL_TEST_OBJECTS/bin/rclone" serve s3 \
        --addr "127.0.0.1:$port" --auth-key AKTEST,SECRETTEST served
    round 'rclone'
    s3_stop

    # A bucket of this server is made by a signed PUT of its name, which s5cmd sends.
    mkdir -p weed
    printf '{"identities": [{"name": "tester", "actions": ["Admin", "Read", "Write", "List"],
        "credentials": [{"accessKey": "AKTEST", "secretKey": "SECRETTEST"}]}]}\n' >keys.json
    read -r port master master_rpc volume volume_rpc filer filer_rpc rpc < <(ports 8)
    ok 'SeaweedFS begins' serving "$port" "$DTCTL_TEST_OBJECTS/bin/weed" server -dir=weed \
        -ip=127.0.0.1 -ip.bind=127.0.0.1 -master.port="$master" -master.port.grpc="$master_rpc" \
        -volume.port="$volume" -volume.port.grpc="$volume_rpc" -volume.max=20 \
        -master.volumeSizeLimitMB=64 -filer -filer.port="$filer" -filer.port.grpc="$filer_rpc" \
        -s3 -s3.port="$port" -s3.port.grpc="$rpc" -s3.config=keys.json
    s5cmd() { env S3_ENDPOINT_URL="$AWS_ENDPOINT_URL" "$DTCTL_TEST_OBJECTS/bin/s5cmd" "$@"; }
    wait_for 60 s5cmd mb s3://bucket
    round 'SeaweedFS'
    list s3://bucket/some/pre+fix/middle
    signed=$(sed -n 's/.*"url":"\([^"]*\)".*/\1/p' list.out)
    is "$(curl -s -o /dev/null -w '%{http_code}' "${signed%%\?*}")" 403 \
        'SeaweedFS refuses an address without a signature'
    short=$(s5cmd presign --expire 1s s3://bucket/some/pre+fix/middle)
    sleep 2
    sed -i "s|\"url\":\"[^\"]*\"|\"url\":\"${short//&/\\&}\"|" list.out
    rm -rf store && mkdir store
    get
    like "$out" '"code":"auth".*403' 'SeaweedFS refuses an address whose time is over'
    s3_stop
else
    skip 16 'servers of the S3 protocol are not here (try: make setup)'
fi
done_testing
