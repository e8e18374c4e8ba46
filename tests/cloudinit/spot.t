#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The spot watcher against a metadata service on loopback that behaves, misbehaves and does not
# answer.
# shellcheck disable=SC2016 # the inner shells expand them
source "${0%/*}/../lib.sh"
source "$SRC/tests/cloudinit/scripts.sh" || exit 1

fresh_node
mkdir -p imds
python3 "$SRC/tests/cloudinit/imds.py" "$WORK/imds" >imds.log 2>&1 &
server=$!
wait_for 20 test -s imds/port
port=$(cat imds/port)
node_conf node=node0 user=ubuntu "imds=127.0.0.1:$port"
now=$(date -u -d 2026-11-21T10:00:00Z +%s)

says() { # PATH TEXT…: the service answers so; without TEXT the path is not there
    local file=imds/${1//\//_}
    shift
    if [ $# -gt 0 ]; then printf '%s' "$*" >"$file"; else rm -f "$file"; fi
}
behaves() { # MODE: see imds.py
    echo "$1" >imds/mode.new && mv imds/mode.new imds/mode
}
look() { # CODE-BEFORE-EACH…: one step, in one process with what CODE says before
    within spot "uptime_s() { :; }; ${1-} spot_step $now 100" >>said 2>&1
}
asked() { # what was asked for since the last time, one word per request
    paste -sd' ' imds/asked 2>/dev/null
    : >imds/asked
}
action=spot/instance-action rebalance=events/recommendations/rebalance

# ---- what it asks for ----------------------------------------------------------------------------
behaves good
look
both='PUT:21600 instance-action:404 rebalance:404'
is "$(asked)" "$both" 'one token and two requests are needed'
is "$(notice)$(calls)" '' 'nothing is announced'
look "spot_step $now 90;"
is "$(asked)" "$both instance-action:404 rebalance:404" 'the token is kept'
look "spot_step $now 90; token_up=-20000;"
is "$(asked)" "$both $both" 'the token is renewed in time'
look "spot_step $now 90; token=stale;"
is "$(asked)" "${both%% *} instance-action:404 rebalance:404 instance-action:401 $both" \
    'a token that is refused is renewed at once'

# ---- what it announces ---------------------------------------------------------------------------
says $rebalance '{"noticeTime": "2026-11-21T09:59:58Z"}'
look
is "$(notice)" "kind=rebalance deadline=0 node=node0" 'a rebalance recommendation is passed on'
like "$(calls)" '^wall dtctl: node0: AWS recommends' 'a rebalance recommendation is announced'
look
is "$(calls)" '' 'a rebalance recommendation is announced once'
says $action '{"action": "terminate", "time": "2026-11-21T10:02:00Z"}'
look
is "$(notice)" "kind=spot-terminate deadline=$((now + 120)) node=node0" \
    'an interruption notice is passed on'
like "$(calls)" 'AWS will terminate this spot instance in 120 s' 'the interruption is announced'
written=$(stat -c %y "$DTCTL_ROOT/run/dtctl/notice")
look "spot_step $now 90; : >\"\$CALLS\";"
is "$(stat -c %y "$DTCTL_ROOT/run/dtctl/notice")$(calls)" "$written" \
    'the interruption is announced once'
for kind in stop hibernate; do
    says $action "{\"time\":\"2026-11-21T10:02:00Z\",\"action\":\"$kind\"}"
    look
    is "$(notice)" "kind=spot-$kind deadline=$((now + 120)) node=node0" \
    "$kind is understood with its keys in another order"
done
says $action
says $rebalance
look
is "$(notice)" '' 'an announcement that is withdrawn has no notice'

# ---- what it cannot understand -------------------------------------------------------------------
for text in '' '{}' 'null' '<html>' '{"action":"explode","time":"2026-11-21T10:02:00Z"}' \
    '{"action":"$(touch pwned)"}' '{"action":["terminate"]}'; do
    says $action "$text"
    look
    is "$(notice)" '' "there is no notice for: ${text:0:30}"
done
for text in '{"action":"terminate"}' '{"action":"terminate","time":"soon"}' \
    '{"action":"terminate","time":"2026-99-99T99:99:99Z"}' \
    '{"action":"terminate","time":"$(touch pwned)"}'; do
    fresh_node
    says $action "$text"
    look
    is "$(notice)" "kind=spot-terminate deadline=$((now + 120)) node=node0" \
        "two minutes are assumed where there is no time: ${text:21:30}"
done
within spot "spot_step $((now + 60)) 160" >/dev/null
is "$(notice)" "kind=spot-terminate deadline=$((now + 120)) node=node0" \
    'the two minutes count from the first look'
is "$(find "$WORK" -name pwned)" '' 'nothing in it is run'

# ---- a service in trouble ------------------------------------------------------------------------
: >imds/asked
for mode in error hang drip endless empty garbage redirect no-token bad-token close; do
    behaves "$mode"
    began=$EPOCHSECONDS
    look
    result "$((EPOCHSECONDS - began <= 8))" "$mode: the next step is in time"
    is "$(notice)" "kind=spot-terminate deadline=$((now + 120)) node=node0" \
        "$mode: the notice is kept"
done
unlike "$(asked)" 'elsewhere' 'a redirect is not followed'
behaves good
says $action
fresh_node
within spot "imds=127.0.0.1:1; spot_step $now 90; spot_step $now 95; imds=127.0.0.1:$port
    spot_step $now 100" >said
service='the instance metadata service'
is "$(paste -sd, said)" "$service does not answer; asking on,$service answers again" \
    'silence is reported once, and its end'

# ---- which instances are watched -----------------------------------------------------------------
rm -r "${DTCTL_ROOT:?}/proc" && ln -s /proc "$DTCTL_ROOT/proc"
says instance-life-cycle on-demand
is "$(within spot spot_main)" 'not a spot instance: on-demand' 'others need no watch'
says instance-life-cycle spot
says $action '{"action": "terminate", "time": "2026-11-21T10:02:00Z"}'
"$NODE_FILES/spot" >>said 2>&1 &
watcher=$!
ok 'the program itself announces' wait_for 20 grep -q terminate "$DTCTL_ROOT/run/dtctl/notice"
kill "$watcher" "$server"
done_testing
