#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The lease of a node: announced, extended, over; whatever the file holds, and whatever the clock
# does. Time is an argument of lease_step, so hours pass here in a moment.
# shellcheck disable=SC2016 # the inner shells expand them
source "${0%/*}/../lib.sh"
source "$SRC/tests/cloudinit/scripts.sh" || exit 1

lease=$DTCTL_ROOT/var/lib/dtctl/lease
now=1800000000
node_conf node=node0 user=ubuntu ttl_s=7200

# steps TEXT: "NOW UP" per line; prints the wait after each, in one process as on a node.
steps() {
    within lease "while read -r n u; do lease_step \$n \$u >>'$WORK/said'; echo -n \"\$wait_s \"
        done <<<'$1'"
}

# ---- from start to end ---------------------------------------------------------------------------
fresh_node
is "$(steps "$now 40")" '10 ' 'a lease is read every ten seconds'
is "$(cat "$lease")" $((now - 40 + 7200)) 'the lease counts from boot'
like "$(calls)" 'chown ubuntu: .*/lease' 'the lease file belongs to the user'
end=$((now + 7160))
is "$(steps "$((end - 605)) 7000")" '5 ' 'wakes when ten minutes are left'
is "$(notice)$(calls)" '' 'nothing is announced before'

fresh_node
echo $end >"$lease"
steps "$((end - 600)) 1000
$((end - 590)) 1010" >/dev/null
is "$(notice)" "kind=lease deadline=$end node=node0" 'the notice is given ten minutes before'
is "$(calls)" 'wall dtctl: node0 ends in 10 min: its lease is over (dtctl extend)' \
    'ten minutes: users get a message'
before=$(stat -c %y "$DTCTL_ROOT/run/dtctl/notice")
is "$(steps "$((end - 600)) 1000
$((end - 65)) 1535
$((end - 60)) 1540
$((end - 53)) 1547")" '10 5 10 10 ' 'wakes at one minute'
like "$(calls)" 'ends in 10 min.*ends in 60 s' 'one minute: users get a second message'
ok 'one minute: the notice is written again' test "$before" != \
    "$(stat -c %y "$DTCTL_ROOT/run/dtctl/notice")"
is "$(steps "$((end - 60)) 1540
$((end - 4)) 1596
$end 1600")" '10 4 10 ' 'wakes at the end'
like "$(calls)" 'ends now.*systemctl poweroff' 'the node powers off at the end'

# ---- extended ------------------------------------------------------------------------------------
fresh_node
echo $end >"$lease"
within lease "lease_step $((end - 300)) 1000; echo $((end + 3600)) >'$lease'
    lease_step $((end - 290)) 1010" >/dev/null
is "$(notice)" '' 'extended: the notice is gone'
like "$(calls)" 'node0 does not end yet' 'extended: users get a message'
rm "$lease"
is "$(within lease "lease_step $((end - 200)) 1100; echo \$lease")" $((end + 3600)) \
    'a lease file that is removed leaves the last deadline'
is "$(within lease "lease_step $((end - 100)) 5; echo \$lease")" $((end + 3600)) \
    'a reboot keeps the last deadline'
is "$(stat -c %a "$DTCTL_ROOT/var/lib/dtctl/own")" 700 \
    'the remembered deadline is readable by root alone'

# ---- shortened to nothing ------------------------------------------------------------------------
fresh_node
echo $((now - 500)) >"$lease"
is "$(steps "$now 1000
$((now + 29)) 1029")" '10 1 ' 'a deadline that has passed'
is "$(calls | grep -c poweroff)" 0 'a deadline in the past is announced first'
is "$(notice)" "kind=lease deadline=$((now + 30)) node=node0" \
    'a deadline in the past is moved by half a minute'
steps "$now 1000
$((now + 30)) 1030" >/dev/null
is "$(calls | grep -c poweroff)" 1 'the node powers off after that'

# ---- whatever the file holds ---------------------------------------------------------------------
hostile() { # DESCRIPTION: the file is there by now
    local got
    got=$(within lease "lease_step $now 100 >>'$WORK/said'; echo \"\$lease\"")
    is "$got" "$end" "$1: the deadline stays"
    rm -rf "$lease"
}
fresh_node
echo $end >"$lease"
steps "$now 100" >/dev/null
for text in '' ' ' abc -5 1 0x7fffffff 1.9e9 "$end $end" "$end;" '$(touch pwned)' \
    'a[$(touch pwned)]' 1800000000000 99999999999999999999999999999999 \
    "$((now + 32 * 86400))" '１８００００００００'; do
    printf '%s\n' "$text" >"$lease"
    hostile "'${text:0:20}'"
done
printf '%s\n\n%s\n' "$end" junk >"$lease" && hostile 'a second line'
head -c 100000 /dev/zero >"$lease" && hostile 'zero bytes'
head -c 5000000 /dev/urandom >"$lease" && hostile 'a large file'
mkfifo "$lease" && hostile 'a pipe nobody writes to'
mkdir "$lease" && hostile 'a folder'
ln -s /dev/zero "$lease" && hostile 'a link to a device'
ln -s lease "$lease" && hostile 'a link to itself'
touch "$lease" && chmod 0 "$lease" && hostile 'a file without rights'
is "$(find "$WORK" -name pwned)" '' 'no text of the lease file is run'
is "$(grep -c 'lease holds no deadline' "$WORK/said")" 23 'each malformed lease is reported once'
printf '  %s \n' $((end + 5)) >"$lease"
is "$(within lease "lease_step $now 100; echo \$lease")" $((end + 5)) 'blanks do not matter'

fresh_node
echo nonsense >"$lease"
is "$(within lease "lease_step $now 100; tail -n 1 '$lease'" | tail -n 1)" $((now - 100 + 7200)) \
    'nonsense and nothing before: the lease counts from boot'
node_conf node=node0 user=ubuntu ttl_s=junk
fresh_node
is "$(within lease "lease_step $now 100 >/dev/null; echo \$lease")" $((now - 100 + 43200)) \
    'a configuration that is broken gives twelve hours'
node_conf node=node0 user=ubuntu ttl_s=0
fresh_node
is "$(within lease "lease_step $now 100; echo -\$lease-\$wait_s")" --10 'ttl_s=0 is no lease'
echo $end >"$lease"
is "$(within lease "lease_step $now 100; echo \$lease")" $end \
    'a lease without a limit begins when one is set'

# ---- the clock is set ----------------------------------------------------------------------------
node_conf node=node0 user=ubuntu ttl_s=7200
fresh_node
clock() { # CODE: the lease after it
    within lease "$1; echo \$lease" | tail -n 1
}
is "$(clock "lease_step 1000000100 20; lease_step $now 30")" $((now - 30 + 7200)) \
    'a first clock that was wrong: the lease moves with it'
is "$(cat "$lease")" $((now - 30 + 7200)) 'the moved lease is written to the file'
is "$(clock "lease_step $now 30; lease_step $((now - 3600)) 40")" \
    $((now - 30 + 7200 - 3610)) 'back as well as forth'
echo $end >"$lease"
is "$(clock "lease_step $now 30; lease_step $((now + 900)) 40")" $end \
    'a deadline from outside does not move'

# ---- notices of others ---------------------------------------------------------------------------
fresh_node
within node.sh "notice_write spot-terminate $((now + 120))"
echo $((now + 500)) >"$lease"
steps "$now 100" >/dev/null
is "$(notice)" "kind=spot-terminate deadline=$((now + 120)) node=node0" \
    'a notice that is more pressing stays'
within node.sh 'notice_clear spot-terminate spot-stop'
within lease "ending_told=1; lease_step $((now + 10)) 110"
is "$(notice)" "kind=lease deadline=$((now + 500)) node=node0" \
    'the lease is announced when the more urgent notice is gone'
within node.sh "notice_write rebalance 0"
is "$(notice)" "kind=lease deadline=$((now + 500)) node=node0" 'a recommendation presses less'
printf 'kind\n=\n====\nkind=\xff\xfe\ndeadline=$(id)\n' >"$DTCTL_ROOT/run/dtctl/notice"
within node.sh "notice_write lease $((now + 500))"
is "$(notice)" "kind=lease deadline=$((now + 500)) node=node0" 'a broken notice is replaced'
done_testing
