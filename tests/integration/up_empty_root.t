#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dtctl alone in an otherwise empty root file system: no shell, no library, no other program. It
# brings up two nodes, trains, and takes them down.
# shellcheck disable=SC2016,SC2317 # the inner shells expand them; called by run
source "${0%/*}/../lib.sh"
[ "$(id -u)" -eq 0 ] || skip_all 'chroot needs root'
unshare --mount true 2>/dev/null || skip_all 'this machine lets nobody make namespaces'

root=$WORK/root
mkdir -p "$root"/{proc,dev/shm,tmp,work}
touch "$root/dev/null"
cp "$(command -v dtctl)" "$root/dtctl"
cat >"$root/work/dtctl.toml" <<'END'
[train]
model = "mlp"
hidden = [32]
dataset = "shapes"
train_size = 2000
test_size = 200
epochs = 1
END
inside() { # ARGUMENTS…: dtctl in the empty root
    unshare --mount --propagation private bash -c '
        mount -t proc proc "$0/proc" && mount --bind /dev/null "$0/dev/null" &&
            mount -t tmpfs tmpfs "$0/dev/shm" || exit 99
        root=$0 exec env -i root="$0" perl -e '\''
            chroot $ENV{root} and chdir "/work" or exit 99; %ENV = ();
            exec "/dtctl", @ARGV'\'' "$@"' \
        "$root" "$@" </dev/null
}
run inside version
is "$status" 0 'dtctl starts'
run inside up
is "$status" 0 'up succeeds'
run inside train
is "$status" 0 'train'
like "$out" 'result +[0-9.]+ % top-1' 'train prints a result'
ok 'the model was fetched' \
    test -s "$(echo "$root"/work/.dtctl/default/runs/*/output/model/model.safetensors)"
run inside train -- /dtctl version
is "$status" 0 'any program that is there can be run'
run inside down
is "$status" 0 'down succeeds'
is "$(find "$root" -name 'dtrun*' -o -name 'dttrain*')" '' 'no program is left on the node'
done_testing
