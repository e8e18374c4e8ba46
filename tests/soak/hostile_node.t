#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every verb against lying nodes: their answers are changed, cut, endless, or invented. Files
# outside the folders of results do not change, no escape sequence reaches the terminal, memory is
# bounded, dtctl names the failure and never ends by a signal.
#
# To repeat one round: SOAK_SEED=SEED SOAK_ROUND=N tests/soak/hostile_node.t
source "${0%/*}/../lib.sh"
command -v python3 >/dev/null || skip_all 'python3 is not installed'
command -v script >/dev/null || skip_all 'script(1) is not installed'

RSS_KIB_MAX=$((400 << 10)) SECONDS_MAX=8
seed=${SOAK_SEED:-1} end=$((SECONDS + ${SOAK_SECONDS:-15}))
kinds=(escapes flip cut numbers flood noise)
verbs=(status ps doctor fetch logs stop gc 'push tree' 'exec -- echo x' 'up --nodes 2' 'top --once')
lists=('fetch --path out/ --to got' 'fetch --path out/ --path more/ --merge --to got'
    'train --name r -- true') # verbs that take lists of files
mkdir -p victim tree .dtctl && echo mine | tee victim/mine tree/mine >.dtctl/guard

dtctl up --nodes 2 >/dev/null 2>&1 || bail_out 'no cluster'
for node in .dtctl/default/nodes/*; do
    mkdir -p "$node/out" "$node/more"
    echo "$node" | tee "$node/out/a-${node##*/}" >"$node/more/b-${node##*/}"
    cp "$node"/bin/dtrun-* "$node/bin/real" && ln -s "$PWD/$node/bin/real" "$node/bin/REAL"
done
mode() { # KIND SEED: of all nodes; dtctl replaces an agent that does not say hello
    local node agent
    for node in .dtctl/default/nodes/*; do
        agent=$(echo "$node"/bin/dtrun-*)
        echo "$1 $2-${node##*/} $WORK/victim" >"$node/bin/MODE"
        cp "$SRC/tests/soak/hostile_node.py" "$node/bin/new" && chmod 700 "$node/bin/new"
        mv "$node/bin/new" "$agent"
    done
}
outside() { find victim tree .dtctl/guard .bashrc .ssh -type f -exec sha256sum {} + 2>/dev/null; }
# The output of dtctl itself: colours, and cursor movements in its own block. All other output is
# foreign.
foreign() {
    sed -E 's/\x1b\[[0-9;]*[mAKBGJ]//g; s/\x1b\[\?25[lh]//g; s/\r//g' |
        LC_ALL=C grep -aobP '[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]|\x1b\[2J' | head -n 3
}

before=$(outside) rounds=0 faults='' seen=0
# shellcheck disable=SC2016 # expanded inside
one='ulimit -c 0; exec /usr/bin/env python3 -c "
import os, resource, subprocess, sys
p = subprocess.Popen(sys.argv[3:])
try:
    p.wait(int(sys.argv[2]))
except subprocess.TimeoutExpired:
    try:
        p.terminate()
        try:
            p.wait(2)
        except subprocess.TimeoutExpired:
            p.terminate()  # the first one may ask the nodes
        p.wait(60)
        p.returncode = 124
    except subprocess.TimeoutExpired:
        p.kill()
        p.wait()
        p.returncode = 200
with open(sys.argv[1], \"w\") as f:
    print(p.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=f)
" "$@"'
echo "$one" >one.sh
round=${SOAK_ROUND:-0}
while [ "$SECONDS" -lt "$end" ] && [ -z "$faults" ]; do
    RANDOM=$((seed % 30 * 1000 + round))
    kind=${kinds[RANDOM % ${#kinds[@]}]} verb=${verbs[RANDOM % ${#verbs[@]}]}
    [ $((round % 2)) = 1 ] || verb=${lists[RANDOM % ${#lists[@]}]}
    [ $((round % 4)) != 0 ] || kind=lists
    if [ "${verb%% *}" = top ]; then # it needs an active run
        mode honest 0
        dtctl train -d --nodes 2 --name active -- sleep 30 >/dev/null 2>&1
    fi
    mode "$kind" "$seed.$round"
    rm -rf got
    script -qec "bash one.sh $WORK/out/end $SECONDS_MAX dtctl $verb" /dev/null \
        </dev/null >out/screen 2>&1
    code='' rss=0
    read -r code rss <out/end
    seen=$((rss > seen ? rss : seen))
    case $code in
    0 | 1 | 2 | 3 | 4 | 124 | 130 | 143) ;;
    *) faults="ended with '$code'" ;;
    esac
    [ "${rss:-0}" -le $RSS_KIB_MAX ] || faults="took $rss KiB of memory"
    # The status of logs is the run's, which may have printed nothing.
    [ "$code" = 0 ] || [ "$verb" = logs ] || grep -q . out/screen ||
        faults="ended with $code without a word"
    [ -z "$(foreign <out/screen)" ] || faults="wrote $(foreign <out/screen | od -An -c | head -n 2)"
    [ "$(outside)" = "$before" ] || faults='changed what is not its own'
    [ -z "$(find got -lname '/*' 2>/dev/null)" ] || faults='placed a link that leads out'
    rounds=$((rounds + 1)) round=$((round + 1))
    [ -z "${SOAK_ROUND-}" ] || break
done
echo "# hostile_node: seed=$seed rounds=$rounds states=$seen KiB faults=${faults:+1}"
is "$faults" '' "$rounds rounds" ||
    diag "dtctl $verb, nodes: $kind; SOAK_SEED=$seed SOAK_ROUND=$((round - 1)) $0" \
        "$(tail out/screen)"

mode honest 0
dtctl down --force -y >out/down 2>&1
ok 'down succeeds when the nodes are honest again' test ! -e .dtctl/default/nodes/node0 ||
    diag "$(cat out/down)"
done_testing
