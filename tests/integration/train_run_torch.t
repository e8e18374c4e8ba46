#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An unmodified DDP script under `dtctl train` on two hosts: it trains, its metric is read from its
# lines, and the model that comes back loads.
# shellcheck disable=SC2012 # plain names
source "${0%/*}/../lib.sh"
# shellcheck source=tests/torch.sh
source "$SRC/tests/torch.sh"
[ -n "$PYTHON" ] || skip_all 'no python3 with PyTorch here (make setup installs one)'
hosts_up 2

printf '[cluster]\nprovider = "hosts"\n[hosts]\nlist = ["root@node[1-2]"]\n' >dtctl.toml
run dtctl up
is "$status" 0 'up succeeds'
mkdir code
cp "$SRC/tests/integration/train_run_torch.py" code/ddp.py
# Workers import PyTorch as the other tests do (tests/tools/python).
torch_run dtctl train --nproc-per-node 2 --file code/ --env OMP_NUM_THREADS=1 \
    --env PYTHONPATH="$PYTHONPATH" --env PYTHONPYCACHEPREFIX="$PYTHONPYCACHEPREFIX" \
    --metric 'loss=loss ([0-9.e+-]+)' -- "$PYTHON" ddp.py
is "$status" 0 'a DDP script runs over gloo, with four ranks on two hosts'
like "$out" '\[node1:0\] world 4 loss 0\.' 'the script trains'
r=$(ls -dt .dtctl/default/runs/ddp-* | head -n 1)
like "$(cat "$r/metrics.jsonl")" '"name":"loss","value":[0-9.]+' 'the loss is a metric'
ok 'the model was fetched and loads' \
    env MODEL="$r/output/model/model.pt" "$PYTHON" code/ddp.py check
done_testing
