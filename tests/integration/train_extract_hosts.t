#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# deliver = extract on hosts: archives that come over SSH are unpacked there, and an archive that
# cannot be unpacked is named with its host.
# shellcheck disable=SC2016 # the workers' shell expands
source "${0%/*}/../lib.sh"
hosts_up 2
hosts_config
run dtctl up
is "$status" 0 'two hosts are up' || diag "$err"
mkdir -p set/a m
for i in 1 2 3 4; do
    echo "member $i" >"m/m$i"
    tar -C m -cf "set/a/p$i.tar" "m$i"
done
has='cd $DTCTL_INPUT_SET && echo "has $(find . -type f | sort | xargs)"'
run dtctl train --input set=set --set inputs.set.deliver=extract --shell "$has"
is "$status $(grep -c '\] has ./a/m1 ./a/m2 ./a/m3 ./a/m4$' <<<"$out")" '0 2' \
    'each host has all members' || diag "$err"
run dtctl train --input set=set:sharded --set inputs.set.deliver=extract --shell "$has"
is "$status $(grep -o './a/m[0-9]' <<<"$out" | sort | xargs)" \
    '0 ./a/m1 ./a/m2 ./a/m3 ./a/m4' 'each member is on one host' || diag "$err"
head -c 1000 /dev/urandom >set/a/p4.tar
run dtctl train --input set=set:sharded --set inputs.set.deliver=extract \
    --set inputs.set.shard=key --shell "$has"
like "$status $err" "^3 .*node2.*'set': archive 'a/p4.tar'" 'host and archive are named'
done_testing
