#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dtctl init: a short file with what is given, and the long one.
source "${0%/*}/../lib.sh"

run dtctl init --provider hosts --host a --host 'b[01-03]'
is "$status:$out" '0:wrote dtctl.toml; next: dtctl up' 'init with hosts writes the file'
is "$(grep -v '^#' dtctl.toml | grep .)" '[cluster]
provider = "hosts"
[hosts]
list = ["a", "b[01-03]"]' 'init writes the given keys'
ok 'the file is short' test "$(wc -l <dtctl.toml)" -lt 20
like "$(cat dtctl.toml)" 'dtctl init --all --dry-run' 'the file says how to see all keys'
run dtctl plan
like "$out" '4 nodes' 'the next command uses the file'
run dtctl init
is "$status" 1 'a file that is there stays'
like "$err" '\(-y replaces it\)' 'the error names -y'
rm dtctl.toml
run dtctl init --provider hosts
like "$out" 'name your hosts in it, in \[hosts\]; then dtctl up' \
    'without hosts, dtctl says to name them'
is "$(grep -c '^#list = \[\]' dtctl.toml)" 1 'the file has the key for hosts'
run dtctl init -y
is "$(grep -c '^provider = "hosts"' dtctl.toml)" 1 '-y keeps what the file has'
rm dtctl.toml
run dtctl init
is "$status" 0 'init without anything succeeds'
run dtctl up
is "$status" 0 'up accepts the file that init writes'
run dtctl init --all --dry-run
ok '--all prints every key' test "$(wc -l <<<"$out")" -gt 200
like "$out" '#epochs = 10' 'keys are printed as comments'
run dtctl init --all -y --nodes 3
is "$(grep -c '^nodes = 3' dtctl.toml):$(grep -c '^#ttl = ' dtctl.toml)" 1:1 'given keys are active'
run dtctl config check
is "$status" 0 'the output is a valid configuration'
done_testing
