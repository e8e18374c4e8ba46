#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Files that are sent to nodes, and files that never are: dtctl's own folder, ignored files, inputs.
# shellcheck disable=SC2016 # the workers' shell expands
source "${0%/*}/../lib.sh"

node=$WORK/.dtctl/default/nodes/node0
dtctl up --nodes 1 >/dev/null 2>&1 || bail_out 'no cluster'

# ---- dtctl's own folder -------------------------------------------------------------------------
mkdir -p .dtctl/default/terraform tree/sub/.dtctl/default tree/.git tree/data
echo secret-of-7f3a >.dtctl/default/secret
echo secret-of-7f3a >.dtctl/default/terraform/terraform.tfstate
echo secret-of-7f3a >tree/sub/.dtctl/default/secret
printf '*.log\n' >tree/.dtctlignore
echo noise | tee tree/a.log >tree/data/b.log
echo x | tee tree/.git/config tree/data/one >tree/sub/two
sent() { (cd "$node/files" && find . ! -type d | sort | xargs); }
clean() { rm -rf "$node/files" "$node/inputs"; }
run dtctl push tree/
is "$status $(sent)" '0 ./.dtctlignore ./data/one ./sub/two' 'push leaves out ignored files'
clean
run dtctl push --all-files tree/
is "$status $(sent)" '0 ./.dtctlignore ./.git/config ./a.log ./data/b.log ./data/one ./sub/two' \
    "--all-files leaves out dtctl's own folder only"
clean
run dtctl push --exclude 'data/' --exclude '*wo' tree/
is "$status $(sent)" '0 ./.dtctlignore' '--exclude leaves out as a line of .dtctlignore does'
for path in .dtctl .dtctl/ .dtctl/default .dtctl/default/secret tree/sub/.dtctl \
    .dtctl/default/runs; do
    run dtctl push --all-files "$path"
    like "$status $err" "^2 .*'$path' belongs to dtctl's own folder" "'$path' cannot be sent"
done
ln -s .dtctl/default/secret innocent
run dtctl push innocent
like "$status $err" "^2 .*'innocent' belongs to dtctl's own folder" \
    "a link to dtctl's own folder is refused"
run dtctl train --input whole=. --input tree=tree -- sh -c \
    'cd "$DTCTL_INPUT_WHOLE/.." && find . -type f | sort | tee "$DTCTL_OUTPUT_DIR/list"'
is "$status" 0 'the current folder is an input'  || diag "$err"
ran=$(ls -d .dtctl/default/runs/*/output)
unlike "$(cat "$ran/list")" '\.dtctl/|\.git/|\.log|secret|tfstate' \
    "the input has no ignored file and nothing of dtctl's own folder"
like "$(cat "$ran/list")" '/tree-[^/]*/data/one' 'the input has all other files'
unlike "$(cd "$node" && grep -rl secret-of-7f3a .)" . 'the node has no key'
run dtctl train --input results="$ran" -- sh -c 'cat "$DTCTL_INPUT_RESULTS/list"'
like "$status $out" '^0 .*tree-[^/]*/data/one' 'results of a run may be the input of the next one'

# ---- places -------------------------------------------------------------------------------------
run dtctl push --to ../../x tree/
like "$status $err" "^2 .*leads through '\.\.'" '--to does not lead out'
run dtctl push --replace --to "$node/../../nodes/node0" tree/
is "$status" 2 'a path above the root is refused whatever its beginning'
run dtctl push --replace --to . tree/
like "$status $err" '^3 .*refusing to replace the whole folder' \
    "--replace of the node's whole folder is refused"
ok "the node's folder is unchanged" test -d "$node/bin"

# ---- one content, two modes ----------------------------------------------------------------------
mkdir twins
head -c 17M /dev/urandom >twins/a
cp twins/a twins/b
chmod 444 twins/a
chmod 755 twins/b
touch -d 2021-02-03 twins/b
modes() { stat -c '%n %a %Y' "$node"/files/[ab] | sed 's,.*/,,'; }
a="a 444 $(stat -c %Y twins/a)" b="b 755 $(stat -c %Y twins/b)"
run dtctl push twins/
is "$status $(modes | xargs)" "0 $a $b" \
    'a chmod of a file does not change other files with the same bytes'
chmod 755 twins/a
run dtctl push twins/
is "$(modes | xargs)" "${a/444/755} $b" 'another mode gives the file its own copy'

# ---- a dry run ----------------------------------------------------------------------------------
truncate -s 2G large
run script -qec 'dtctl push --dry-run large' /dev/null
like "$status $out" '^0 .*would send 1 file, 2\.1 GB.* of 1 node' 'a dry run asks nothing'
run dtctl push --dry-run --json large
like "$out" '"event":"would-push".*"bytes":2147483648' '--dry-run --json reports the bytes'
unlike "$(find "$node" -name large)" . 'nothing was sent'

# ---- an agent that is no program ----------------------------------------------------------------
agent=$(echo "$node"/bin/dtrun-*)
echo damaged >"$agent"
run dtctl doctor
like "$out" 'ok +node0 ' 'a damaged agent of a local node is replaced' || diag "$out"
mv "$agent" kept && mkdir "$agent"
run dtctl doctor
like "$out" "-> look at its folder '$node'" 'the remedy for a local node names its folder'
rmdir "$agent"

run dtctl down
is "$status" 0 'down succeeds'
done_testing
