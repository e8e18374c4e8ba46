#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# While the addresses of a streamed input are renewed, the run is followed as before, however long
# the list takes.
# Clock: no line of a rank is shown more than two seconds late.
# shellcheck disable=SC2317 # functions are called by name
source "${0%/*}/../lib.sh"
source "$SRC/tests/s3.sh"

LIST_PAUSE_S=3 # of each of three answers
# A node asks, and dtctl looks for another key, ten minutes before a key ends: not before the run
# has begun.
LIFE="now + $((600 + 12)) seconds"
s3_start PAGE=4
mkdir set
for i in 0 1 2 3 4 5; do head -c 60000 /dev/urandom >"set/part-$i.tar"; done
dtdata put set s3://bucket/set >put.out || bail_out "$(cat put.out)"
unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY

# The first key ends as keys.sh.life says. A later one does so in two hours or, while there is
# keys.sh.same, as many seconds after the one before as that says.
cat >keys.sh <<'END1'
#!/bin/sh
echo x >>"$0.runs"
ends=$(($(date +%s) + 7200)) later=0 before=$(($(wc -l <"$0.runs") - 1))
[ ! -s "$0.same" ] || later=$(cat "$0.same")
[ $before != 0 ] && [ ! -e "$0.same" ] || ends=$(($(cat "$0.life") + before * later))
printf '{"Version":1,"AccessKeyId":"AKTEST","SecretAccessKey":"SECRETTEST","Expiration":"%s"}' \
    "$(date -u -d "@$ends" +%Y-%m-%dT%H:%M:%SZ)"
END1
chmod +x keys.sh
mkdir -p ~/.aws
printf '[default]\ncredential_process = "%s"\n' "$WORK/keys.sh" >~/.aws/config
cat >dtctl.toml <<'END1'
[inputs.set]
source = "s3://bucket/set"
deliver = "stream"
window = "1"
END1
# Prints the time of each line, until a file is there.
cat >talk.py <<'END1'
import os, sys, time
while not os.path.exists(sys.argv[1]):
    print("said", int(time.time() * 1000), flush=True)
    time.sleep(0.1)
END1
# The largest delay of a line: "MS SHOWN_AT".
cat >delays.py <<'END1'
import sys, time
worst = (0, 0)
for line in iter(sys.stdin.buffer.readline, b""):
    now, words = int(time.time() * 1000), line.split()
    if b"said" in words:
        worst = max(worst, (now - int(words[words.index(b"said") + 1]), now))
print(*worst)
END1
events() { cat .dtctl/default/nodes/*/runs/"$(newest_id "$1")"/events.jsonl; }
has() { events "$1" 2>/dev/null | grep -q "\"what\":\"$2\""; }
listers() { ps -o pid=,args= --ppid "$1" | awk '/ --asks / { print $1 }' | xargs; } # of a dtctl
begin() { # LIFE PAUSE: the first key ends so, and lists after the first one take three pauses
    rm -rf .dtctl/default/nodes/*/cas && rm -f keys.sh.runs
    date -d "$1" +%s >keys.sh.life
    s3_ask "/-/lists?pause=$2&skip=3" >/dev/null
}

dtctl up --nodes 1 >made.log 2>&1 || diag "$(cat made.log)"

# ---- the view ----------------------------------------------------------------------------------
begin "$LIFE" $LIST_PAUSE_S
late_begins
dtctl train --name view -- python3 talk.py "$WORK/view.end" 2>view.err | python3 delays.py >worst &
ok 'addresses are asked for' wait_for 60 has view ends || diag "$(cat view.err)"
asked=${EPOCHREALTIME/./}
ok 'addresses are renewed' wait_for 60 has view renewed || diag "$(cat view.err)"
took=$(((${EPOCHREALTIME/./} - asked) / 1000))
sleep 0.5
touch view.end
wait $!
read -r late at <worst
ok "the list has taken long ($took ms)" test $took -gt $((LIST_PAUSE_S * 2000))
soon 2000 $((at - late)) "$at" 'lines of the ranks are shown while the list is made'
is "$(wc -l <keys.sh.runs)" 2 'one key was found for each list'

# ---- leaving ------------------------------------------------------------------------------------
begin "$LIFE" 60
dtctl train --name leave -- python3 talk.py "$WORK/leave.end" >leave.out 2>leave.err &
pid=$!
is_listing() { has leave ends && listers=$(listers "$pid") && [ -n "$listers" ]; }
ok 'a list is being made' wait_for 60 is_listing || diag "$(cat leave.err)"
left=${EPOCHREALTIME/./}
kill -HUP $pid
wait $pid
soon 3000 $((left / 1000)) $((${EPOCHREALTIME/./} / 1000)) 'dtctl leaves the run at once'
is "$(ps -o pid= -p "${listers// /,}" | xargs)" '' 'the program that makes the list has ended'
touch leave.end
dtctl fetch leave >fetch.log 2>&1

# ---- a limit --------------------------------------------------------------------------------
touch keys.sh.same # for two hours only without it
begin 'now + 110 seconds' 200
dtctl train --name limit -- python3 talk.py "$WORK/limit.end" >limit.out 2>limit.err &
pid=$!
late() { grep -q 'was not listed within' limit.err; }
ok 'the time of a list is limited' wait_for 60 late
is "$(listers $pid)" '' 'dtctl has ended its program'
rm keys.sh.same
s3_ask '/-/lists?pause=0' >/dev/null
ok 'the next try comes before the addresses end' wait_for 60 has limit renewed ||
    diag "$(cat limit.err)"
like "$(cat limit.err)" \
    "not renewed.*input=set.*'s3://bucket/set' was not listed within 2[0-9] s.*try: " \
    'a warning names the input, its source, the limit and the remedy'
is "$(grep -c 'not renewed' limit.err)" 1 'each try has one warning'
touch limit.end
wait $pid
is $? 0 'the run goes on'

# ---- keys that end no later, and hardly later ---------------------------------------------------
for later in 0 15; do
    name=same$later
    echo $later >keys.sh.same
    begin 'now + 300 seconds' 0
    dtctl train --name $name -- python3 talk.py "$WORK/$name.end" >$name.out 2>$name.err &
    pid=$!
    ok "new addresses end with the old ones, or $later s later" \
        wait_for 60 grep -q 'not renewed' $name.err || diag "$(cat $name.err)"
    like "$(cat $name.err)" \
        'AWS key of this computer ends in [0-9]+ s, no later than.*try: log in' \
        'the warning has the reason'
    unlike "$(events $name)" '"what":"renewed"' 'the node keeps its addresses'
    rm keys.sh.same
    ok 'with a new key they are renewed' wait_for 60 has $name renewed || diag "$(cat $name.err)"
    touch $name.end
    wait $pid
    is $? 0 'the run with an old key goes on'
done

# ---- refusals, and two dtctl ---------------------------------------------------------------------
touch keys.sh.same
begin 'now + 300 seconds' 0
dtctl train --name two -- python3 talk.py "$WORK/two.end" >two.out 2>two.err &
pid=$!
ok 'a key that stays is the reason' wait_for 60 grep -q 'no later than' two.err
printf '#!/bin/sh\necho the login is over >&2\nexit 1\n' >keys.new
chmod +x keys.new
mv keys.sh keys.good && mv keys.new keys.sh
ok 'a failed login is a warning' wait_for 60 grep -q 'not renewed.*the login is over' two.err ||
    diag "$(cat two.err)"
mv keys.good keys.sh
s3_ask '/-/refuse?peer=127.0.0.1' >/dev/null
ok 'a refusal of the bucket is a warning' wait_for 60 grep -q 'not renewed.*AccessDenied' two.err ||
    diag "$(cat two.err)"
unlike "$(events two)" '"what":"renewed"' 'the node keeps its addresses after each failure'
dtctl logs -f two >follow.out 2>follow.err &
follower=$!
shown() { [ "$(wc -l <follow.out)" -gt 5 ]; }
ok 'a second dtctl follows the run' wait_for 60 shown
rm keys.sh.same
s3_ask '/-/refuse' >/dev/null
ok 'addresses are renewed once the bucket answers' wait_for 60 has two renewed ||
    diag "$(cat two.err)"
unlike "$(cat two.err follow.err)" 'does not take|does not get' 'neither dtctl disturbs the other'
touch two.end
wait $pid
is $? 0 'the run goes on after all failures' || diag "$(cat two.err)"
wait $follower
dtctl down -y >down.log 2>&1
done_testing
