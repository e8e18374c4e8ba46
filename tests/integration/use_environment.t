#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Unknown DTCTL_… variables are named; those of workers, builds and tests are not.
source "${0%/*}/../lib.sh"

run env DTCTL_NODES=s3cret dtctl up
is "$status" 0 'an unknown variable stops nothing'
like "$err" 'DTCTL_NODES \(did you mean DTCTL_CLUSTER_NODES or DTCTL_TRAIN_NODES\?\)' \
    'dtctl names the unknown variable'
is "$(grep -c DTCTL_NODES <<<"$err")" 1 'dtctl names it once'
unlike "$out$err" 's3cret' 'dtctl does not print its value'
run dtctl status
unlike "$err" 'DTCTL_' 'nothing is said of those that the tests set'
run env DTCTL_NODES=3 dtctl completion bash
is "$status:$err" 0: 'variables of the completion give no warning'
run env DTCTL_CLUSTER_NODES=3 DTCTL_CONFIG=dtctl.toml DTCTL_YES=true dtctl version
is "$status:$err" 0: 'known variables give no warning'

# A worker that calls dtctl has its agent's variables, whatever they are.
mkdir data && echo 1 >data/one
run dtctl train --nodes 1 --input 'set-1=data' -- dtctl version
is "$status" 0 'dtctl starts inside a run'
like "$out" 'dtctl [0-9]' 'dtctl runs inside a run'
unlike "$out$err" 'nothing reads' 'variables of a run give no warning'
done_testing
