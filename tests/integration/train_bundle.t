#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# env.bundle: a venv or an environment of conda-pack runs the command; it is sent and unpacked once
# per node. Hostile archives, full disks and a kill leave nothing that a run would take for one.
# shellcheck disable=SC2016,SC2317 # the workers' shell expands; functions are called by name
source "${0%/*}/../lib.sh"
unshare --mount true 2>/dev/null || skip_all 'this machine lets nobody mount a small disk'
[ -n "${DISK_INSIDE-}" ] || DISK_INSIDE=1 TEST_WORK=$WORK exec unshare --mount "$SCRIPT"

python=$(python3 -c 'import sys; print(sys.executable)')
nodes=.dtctl/default/nodes
envs() { compgen -G "$nodes/*/envs/bundle-*/$1"; } # PATH below the folder of an environment
pack() { tar -C "$1" -cf - . | zstd -q >"$2"; }    # FOLDER ARCHIVE
# shellcheck disable=SC2012 # plain names
run dtctl up --nodes 2
is "$status" 0 'two nodes are up'

# ---- a venv -------------------------------------------------------------------------------------
ok 'a venv is made' "$python" -m venv --without-pip venv
echo 'value = 42' >"$(echo venv/lib/python3*/site-packages)/answer.py"
printf '#!/bin/sh\necho "tool of the bundle"\n' >venv/bin/tool
chmod +x venv/bin/tool
pack venv env.tar.zst
cat >dtctl.toml <<'E2'
[env]
GREETING = "hello"
[env.bundle]
archive = "env.tar.zst"
E2
run dtctl train --dry-run --shell true
is "$status" 0 'a plan is made'
like "$err" 'bundle +env.tar.zst, .*unpacked once on each node' 'the plan names the archive'
like "$err" '[0-9]+ files and folders, [0-9.]+ [kM]i?B unpacked' 'the plan says what is in it'
like "$err" "a venv: it needs $(readlink -f venv/bin/python3 | sed 's,[^/]*$,,')" \
    'the plan names the interpreter that it needs'
is "$(envs 'done')" '' 'a plan unpacks nothing'
code='import answer, os, sys
print("got", answer.value, os.path.samefile(sys.prefix, os.environ["VIRTUAL_ENV"]),
      os.environ["GREETING"])'
run dtctl train -- python3 -c "$code"
is "$status" 0 'a run in the venv succeeds' || diag "$err"
is "$(grep -c '\] got 42 True hello$' <<<"$out")" 2 \
    'the Python of the venv and its packages run on both nodes'
is "$(envs 'done' | wc -l)" 2 'each node has unpacked it'
ok 'the events name it' grep -q '"kind":"prepared"' "$(newest_run)/events.jsonl"
before=$(stat -c '%n %i %Z' $nodes/*/envs/*/{env,archive})
run dtctl train --shell 'tool; command -v dtrun'
is "$(grep -c '\] tool of the bundle$' <<<"$out")" 2 'the bin of the venv comes first on PATH'
is "$(grep -c '/bin/dtrun$' <<<"$out")" 2 'dtrun is still on PATH'
is "$(stat -c '%n %i %Z' $nodes/*/envs/*/{env,archive})" "$before" \
    'a second run neither sends nor unpacks it'
run dtctl train --env PATH=/bin:/usr/bin --setup 'tool' --shell 'tool; echo "$PATH"'
is "$(grep -c '\] tool of the bundle$' <<<"$out") $(grep -c '/env/bin:/bin:/usr/bin$' <<<"$out")" \
    '2 2' "it comes before the user's PATH"
is "$(cat "$(newest_run)"/setup/*.log)" "tool of the bundle
tool of the bundle" 'the setup runs in it, too'
run dtctl train --set env.bundle.archive= --shell 'echo "none: $VIRTUAL_ENV."'
is "$(grep -c 'none: \.' <<<"$out")" 2 'without an archive nothing of it is there'

# ---- conda-pack ---------------------------------------------------------------------------------
mkdir -p conda/packed/{bin,conda-meta}
cat >conda/packed/bin/conda-unpack <<'E2'
#!/bin/sh
echo "unpacks in $CONDA_PREFIX"
echo once >>"$CONDA_PREFIX/times"
sleep 1
E2
chmod +x conda/packed/bin/conda-unpack
tar -C conda -cf conda.tar packed
dtctl train --env-bundle conda.tar --shell true >"$WORK/out/a.log" 2>&1 &
pid=$!
run dtctl train --env-bundle conda.tar --shell 'cat "$CONDA_PREFIX/times"'
is "$status" 0 'a run in an environment of conda-pack succeeds' || diag "$err"
is "$(grep -c '\] once$' <<<"$out")" 2 'conda-unpack has run once on each node, in it'
ok 'a second run at once finishes, too' wait "$pid"
is "$(cat .dtctl/default/runs/*/setup/*.log | grep -c '^unpacks in /.*/env$')" 2 \
    'the output of conda-unpack is in the logs of the setup'
printf '#!/bin/sh\necho "cannot"; exit 7\n' >conda/packed/bin/conda-unpack
tar -C conda -cf bad.tar packed
for try in first second; do
    run dtctl train --env-bundle bad.tar --shell true
    like "$status $err" '^3 .*env.bundle: conda-unpack ended with status 7' \
        "a conda-unpack that fails ends the run, the $try time"
done

# ---- refused ------------------------------------------------------------------------------------
gzip -c conda.tar >env.tar.gz
run dtctl train --env-bundle env.tar.gz --shell true
like "$status $err" '^1 .*env.bundle.archive: .*compressed with gzip.*zstd' 'gzip is refused'
run dtctl train --env-bundle none.tar --shell true
like "$status $err" "^2 .*--env-bundle.*'none.tar'" 'an archive that is not there is refused'
run dtctl train --env-bundle "$SCRIPT" --shell true
like "$status $err" '^1 .*not a tar archive' 'a file of another kind is refused'
run dtctl train --env-bundle conda --shell true
like "$status $err" '^2 .*is no file' 'a folder is refused'
run dtctl train --env-bundle conda.tar
like "$status $err" '^2 .*for commands, not for the native trainer' \
    'the native trainer takes no environment'
python3 - <<'E2'
import io, tarfile
def archive(name, *members):
    with tarfile.open(name, "w") as t:
        for kind, path, text in ((tarfile.REGTYPE, "bin/tool", ""),) + members:
            m = tarfile.TarInfo(path)
            m.type = kind
            m.linkname = text if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
            data = (text or "evil").encode() if kind == tarfile.REGTYPE else b""
            m.size = len(data)
            t.addfile(m, io.BytesIO(data))
archive("up.tar", (tarfile.REGTYPE, "../../../evil", ""))
archive("link.tar", (tarfile.SYMTYPE, "out", "../../.."), (tarfile.REGTYPE, "out/evil", ""))
archive("device.tar", (tarfile.CHRTYPE, "bin/null", ""))
archive("below.tar", (tarfile.SYMTYPE, "lib64", "lib"), (tarfile.REGTYPE, "lib64/x", ""))
archive("twice.tar", (tarfile.REGTYPE, "bin/tool", "second\n"))
archive("hard.tar", (tarfile.LNKTYPE, "bin/hard", "../lock"))
with tarfile.open("many.tar", "w") as t:
    for i in range(30000):
        t.addfile(tarfile.TarInfo(f"bin/{i}"))
with tarfile.open("few.tar", "w") as t:
    for i in range(100):
        t.addfile(tarfile.TarInfo(f"bin/{i}"))
E2
had=$(envs env | wc -l) sent=$(envs archive | wc -l)
for case in up:name link:link hard:link; do
    run dtctl train --env-bundle "${case%:*}.tar" --shell true
    like "$status $err" "^1 .*env.bundle.*: .*member .*${case#*:} that leads out of its folder" \
        "${case%:*}.tar is refused"
done
run dtctl train --env-bundle device.tar --shell true
like "$status $err" "^1 .*member 'bin/null' is neither a file" 'a device is refused'
run dtctl train --env-bundle below.tar --shell true
like "$status $err" "^1 .*member 'lib64/x' lies below 'lib64', which is a link" \
    'a file below a link is refused'
is "$(envs archive | wc -l)" "$sent" 'no refused archive was sent'
run dtctl train --env-bundle twice.tar --shell 'cat "${PATH%%:*}/tool"'
like "$status $out" '^0 .*\] second' 'of two files with one name the later one counts' ||
    diag "$err"
run dtctl train --dry-run --env-bundle link.tar --shell true
like "$status $err" '^1 .*leads out of its folder' 'the plan refuses it already'
is "$(find .dtctl -name evil | wc -l) $(envs env | wc -l)" "0 $((had + 2))" \
    'nothing of them is written'

# ---- killed -------------------------------------------------------------------------------------
dtctl train --nodes 1 --env-bundle many.tar --shell true >"$WORK/out/cut.log" 2>&1 &
pid=$!
begun() { envs 'env.dtctl-new-*/bin'; }
ok 'an archive is being unpacked' wait_for 30 begun
dir=$(envs 'env.dtctl-new-*')
kill -KILL "$(sed 's/^pid \([0-9]*\):.*/\1/' "${dir%/*}/lock")"
wait "$pid"
is "$? $(ls -d "${dir%/*}"/{env,done} 2>/dev/null)" '3 ' 'a killed unpack leaves no environment'
run dtctl train --nodes 1 --env-bundle many.tar --shell 'echo "has $(ls "${PATH%%:*}" | wc -l)"'
like "$status $out" '^0 .*has 30000' 'the next run has all of it' || diag "$err"
is "$(envs 'env.dtctl-*')" '' 'nothing of the killed one is left'

# ---- a full disk --------------------------------------------------------------------------------
run dtctl data ls
is "$(awk '$1 == "bundle" { print $2 }' <<<"$out" | sort | uniq -c | xargs)" '5 node0 4 node1' \
    'data ls shows the environments on each node'
run dtctl data rm -y bundle
is "$status $(envs .)" '0 ' 'data rm removes them'
mount -t tmpfs -o size=8m,nr_inodes=40 tmpfs $nodes/node0/envs
mkdir -p zeros/bin
head -c 16M /dev/zero >zeros/bin/zeros
pack zeros zeros.tar.zst
run dtctl train --nodes 1 --env-bundle zeros.tar.zst --shell true
like "$status $err" '^3 .*the environment needs 16.*MB? on the disk of .*, where [78].*free' \
    'a disk that is too small: the error has both sizes' || diag "$err"
run dtctl train --nodes 1 --env-bundle few.tar --shell true
like "$status $err" '^3 .*unpacking an environment of .*No space left on device' \
    'a disk that is full before the end is reported' || diag "$err"
is "$(envs 'env*')" '' 'neither leaves a part'
umount $nodes/node0/envs
run dtctl train --env-bundle few.tar --shell true
is "$status" 0 'a later run sends and unpacks it again'

# ---- a machine that takes the place of a node ---------------------------------------------------
dtctl train --env-bundle few.tar --max-restarts 3 --rdzv-conf heartbeat=2,silence=30 --shell \
    'echo "has $(ls "${PATH%%:*}" | wc -l)"; sleep 60' >"$WORK/out/new.log" 2>&1 &
pid=$!
has() { [ "$(grep -c "^\[node1:.*has 100" "$WORK/out/new.log")" -ge "$1" ]; }
ok 'a run begins on two nodes' wait_for 60 has 1
id=$(newest_id)
agent=$(sed -n 's/.*"pid":\([0-9]*\),"round".*/\1/p' "$nodes/node1/runs/$id/status.json")
mv "$nodes/node1/runs/$id" $nodes/node1/envs "$WORK/out/"
kill -KILL "$agent"
ok 'a new node gets the environment' wait_for 60 has 2 || diag "$(cat "$WORK/out/new.log")"
run dtctl stop "$id"
wait "$pid"

# ---- tasks --------------------------------------------------------------------------------------
run dtctl train --if-changed --name task --env-bundle few.tar --shell true
is "$status" 0 'a task with an environment succeeds'
run dtctl train --if-changed --name task --env-bundle few.tar --shell true
like "$err" 'is reused' 'the same environment: the run is reused'
run dtctl train --if-changed --name task --env-bundle conda.tar --shell true
like "$err" 'its environment changed' 'another one: the task runs'
run dtctl down -y --force
ok 'down removes the environments' test ! -e $nodes
done_testing
