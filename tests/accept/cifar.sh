#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# CIFAR-10, two epochs of ResNet-18 on two nodes: once with provider local, once on two hosts over
# SSH. Both must pass 60 % and end with the same loss. Takes minutes, so it is not in `make test`:
# run it with `make accept`.
# shellcheck disable=SC2012 # plain names
source "${0%/*}/../lib.sh"
hosts_up 2

data=$DTCTL_SRC/../shared/data/cifar10-images.tar.zst
[ -r "$data" ] || skip_all "no CIFAR-10 images at $data"

settings() { # PROVIDER
    cat <<END
[cluster]
provider = "$1"
[hosts]
list = ["root@node[1-2]"]
[inputs.data]
source = "$data"
[train]
model = "resnet18"
stem = "imagenet"
epochs = 2
batch = 64
optimizer = "adam"
lr = 1e-3
flip = true
normalize = "imagenet"
threads = 1
END
}

value() { # FILE KEY
    grep -oE "\"$2\": *[0-9.eE+-]+" "$1" | tail -n 1 | sed 's/.*: *//'
}

for provider in local hosts; do
    mkdir -p "$provider"
    cd "$provider" || bail_out 'no folder'
    settings "$provider" >dtctl.toml
    run dtctl up
    is "$status" 0 "$provider: up"
    run dtctl train --nodes 2
    is "$status" 0 "$provider: train"
    printf '%s\n' "$out" "$err" | grep -E 'Acc@1|result|time ' | tail -n 4 | sed 's/^/# /'
    summary=$(ls -t .dtctl/default/runs/*/summary.json | head -n 1)
    cp "$summary" "../$provider.json"
    accuracy=$(printf '%s\n' "$out" | grep -oE '\* Acc@1 [0-9.]+' | tail -n 1 | cut -d' ' -f3)
    ok "$provider: $accuracy % is past 60 %" awk "BEGIN { exit !($accuracy > 60) }"
    dtctl down -y >/dev/null 2>&1
    cd ..
done
is "$(value local.json final_loss)" "$(value hosts.json final_loss)" 'both end with the same loss'
done_testing
