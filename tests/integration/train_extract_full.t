#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# deliver = extract on a disk that is full, and archives that are made to do harm: one sentence,
# nothing outside the tree changes, nothing of the tree is left, and the next run succeeds.
# shellcheck disable=SC2016,SC2317 # the workers' shell expands; called by name
source "${0%/*}/../lib.sh"
unshare --mount true 2>/dev/null || skip_all 'this machine lets nobody mount a small disk'
[ -n "${DISK_INSIDE-}" ] || DISK_INSIDE=1 TEST_WORK=$WORK exec unshare --mount "$SCRIPT"
mkdir disk in hostile
mount -t tmpfs -o size=96m,nr_inodes=4000 disk disk || skip_all 'a tmpfs cannot be mounted'
mount -t tmpfs -o size=64m in in
cd disk || exit
nodes=.dtctl/default/nodes
trees() { compgen -G "$nodes/*/inputs/$1-*-extracted*"; } # NAME
refused() { # INPUT WHY: within one line
    run dtctl train --input x="$1" --set inputs.x.deliver=extract --shell true
    like "$status $err" "^3 .*node0.*'x': archive '.*$2" \
        "the run is refused: $2"
    is "$(trees x)" '' '  nothing of it is left'
}
run dtctl up --nodes 1
is "$status" 0 'a node is up'

# ---- a full disk ---------------------------------------------------------------------------------
mkdir ../in/bomb ../in/many
python3 - <<'E2'
import subprocess, tarfile
with open("../in/bomb/b.tar.zst", "wb") as out:
    z = subprocess.Popen(["zstd", "-q"], stdin=subprocess.PIPE, stdout=out)
    with tarfile.open(fileobj=z.stdin, mode="w|") as t:
        for i in range(40):
            f = tarfile.TarInfo(f"zero{i}")
            f.size = 10 << 20
            t.addfile(f, open("/dev/zero", "rb"))
    z.stdin.close()
    z.wait()
with tarfile.open("../in/many/m.tar", "w") as t:
    for i in range(5000):
        t.addfile(tarfile.TarInfo(f"f/{i}"))
E2
free() { df --output=avail -k . | tail -n 1; }
before=$(free)
refused ../in/bomb "b.tar.zst': member 'zero[0-9]*': the archives up to it need .* are free"
ok '  and the disk is as free as before' [ $((before - $(free))) -lt 2000 ]
refused ../in/many "m.tar': .*/f/[0-9]*': No space left on device .5000 members of 0 B; .*data ls"
mount -o remount,size=96m,nr_inodes=20000 disk
run dtctl train --input x=../in/many --set inputs.x.deliver=extract \
    --shell 'echo "has $(ls "$DTCTL_INPUT_X/f" | wc -l)"'
like "$status $out" '^0 .*has 5000' 'with room the next run has all of it' || diag "$err"
dtctl data rm -y x >/dev/null 2>&1

# ---- archives that do harm -----------------------------------------------------------------------
echo untouched >../victim
python3 - <<'E2'
import os, tarfile
def archive(name, *members):
    os.makedirs(f"../hostile/{name}")
    with tarfile.open(f"../hostile/{name}/a.tar", "w", format=tarfile.GNU_FORMAT) as t:
        for path, kind, link in members:
            m = tarfile.TarInfo("x")
            m.name, m.type, m.linkname, m.devmajor, m.devminor = path, kind, link, 1, 3
            t.addfile(m)
up = os.path.abspath("../victim")
archive("absolute", (up, tarfile.REGTYPE, ""))
archive("above", ("a/../../victim", tarfile.REGTYPE, ""))
archive("through", ("d", tarfile.SYMTYPE, "e"), ("d/victim", tarfile.REGTYPE, ""))
archive("outside", ("d", tarfile.SYMTYPE, ".."), ("d/victim", tarfile.REGTYPE, ""))
archive("hard", ("h", tarfile.LNKTYPE, "../../victim"))
archive("hardabsolute", ("h", tarfile.LNKTYPE, up))
archive("device", ("null", tarfile.CHRTYPE, ""))
archive("block", ("disk", tarfile.BLKTYPE, ""))
archive("pipe", ("p", tarfile.FIFOTYPE, ""))
archive("control", ("a\033[2Jb", tarfile.REGTYPE, ""))
os.makedirs("../hostile/huge")
m = tarfile.TarInfo("huge")
m.size = 1 << 61
open("../hostile/huge/a.tar", "wb").write(m.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
E2
refused ../hostile/absolute "a.tar': member '/.*' has a name that leads out"
refused ../hostile/above "a.tar': member 'a/../../victim' has a name that leads out"
refused ../hostile/through "a.tar': member 'd/victim' lies below 'd', which is a link"
refused ../hostile/outside "a.tar': member 'd' is a link that leads out"
refused ../hostile/hard "a.tar': member 'h' is a link that leads out"
refused ../hostile/hardabsolute "a.tar': member 'h' is a link that leads out"
refused ../hostile/device "a.tar': member 'null' is neither a file"
refused ../hostile/block "a.tar': member 'disk' is neither a file"
refused ../hostile/pipe "a.tar': member 'p' is neither a file"
refused ../hostile/control "a.tar': member 'a.\[2Jb' has control characters"
refused ../hostile/huge "a.tar': "
is "$(cat ../victim)" untouched 'nothing outside has changed'
cd ..
umount disk in
done_testing
