#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Unknown DTCTL_… variables are named; those of workers, builds and tests are not.
source "${0%/*}/../lib.sh"

run env DTCTL_NODES=s3cret dtctl up
is "$status" 0 'a variable that nobody reads stops nothing'
like "$err" 'DTCTL_NODES \(did you mean DTCTL_CLUSTER_NODES or DTCTL_TRAIN_NODES\?\)' 'it is named'
is "$(grep -c DTCTL_NODES <<<"$err")" 1 'in one line'
unlike "$out$err" 's3cret' 'without its value'
run dtctl status
unlike "$err" 'DTCTL_' 'nothing is said of those that the tests set'
run env DTCTL_NODES=3 dtctl completion bash
is "$status:$err" 0: 'what a shell reads has no remark'
run env DTCTL_CLUSTER_NODES=3 DTCTL_CONFIG=dtctl.toml DTCTL_YES=true dtctl version
is "$status:$err" 0: 'nor has what is read'

# A worker that calls dtctl has its agent's variables, whatever they are.
mkdir data && echo 1 >data/one
run dtctl train --nodes 1 --input 'set-1=data' -- dtctl version
is "$status" 0 'dtctl inside a run'
like "$out" 'dtctl [0-9]' 'is called'
unlike "$out$err" 'nothing reads' 'and does not complain of what the run has set'
done_testing
