#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make_seeds.sh [FOLDER]: writes the seeds of fuzz_shards and those of fuzz_webdataset anew, from
# images that dtctl makes. The same dtctl gives the same seeds.
set -euo pipefail
cd "$(dirname "$0")/../.."
dtctl=$PWD/bin/dtctl to=$PWD/tests/fuzz/corpus
[ $# = 0 ] || to=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$to/shards" "$to/webdataset"
cd "$work"
pack() { # NAME FILE…: a small archive whose bytes depend on the files alone
    local name=$1
    shift
    tar --format=ustar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -b2 \
        -cf "$name" "$@"
}
"$dtctl" data make-shapes set --images 2 --test-images 0 --image-size 24 -q >/dev/null
"$dtctl" data pack set two --split train -q >/dev/null
cp two/train/000000.tar "$to/shards/two"
head -c 2500 two/train/000000.tar >"$to/shards/cut"
tar xf two/train/000000.tar
echo 12a >000000001.cls
pack "$to/shards/label" 000000001.cls 000000001.jpg
pack "$to/shards/no_label" 000000000.jpg
echo mac >._000000000.jpg
pack "$to/shards/mac" ._000000000.jpg 000000000.cls 000000000.jpg
head -c 300 000000000.jpg >000000002.jpg
echo 0 >000000002.cls
pack "$to/shards/cut_image" 000000002.cls 000000002.jpg
pack "$to/shards/folder" -C set train
printf 'a/b.c/000.jpg\n12\n' >"$to/webdataset/image"
printf '._x.cls\n999999999999\n' >"$to/webdataset/large"
printf 'x.seg.png\n 3\n' >"$to/webdataset/field"
