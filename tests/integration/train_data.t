#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Data of the native trainer as a user has it: make-shapes, pack, inspect, and runs on two local
# nodes from class archives and from shards, with a bad image, a cut archive, and failing system
# calls.
# shellcheck disable=SC2012 # plain names
source "${0%/*}/../lib.sh"

field() { # FILE KEY: the first value of this key in a JSON file
    grep -o "\"$2\":[^,}]*" "$1" | head -n 1 | cut -d: -f2- | tr -d '"'
}
summary() { ls -td .dtctl/default/runs/*/output/summary.json 2>/dev/null | head -n 1; }
small=(--set train.model=mlp --set train.hidden=16 --set train.epochs=2 --set train.batch=8
    --set train.image_size=24 --set train.eval_batch=16 --set train.threads=1)
imagenet=("${small[@]}" --set train.random_resized_crop=true)

# ---- making, packing, looking --------------------------------------------------------------------
run dtctl data make-shapes set --images 60 --test-images 20 --image-size 40
is "$status" 0 'make-shapes'
like "$out" '60 images to train on and 20 to evaluate on, 40 x 40' \
    'make-shapes reports the images that it made'
is "$(find set/train -name '*.jpg' | wc -l)/$(find set/test -name '*.jpg' | wc -l)" 60/20 \
    'files are written by class'
dtctl data make-shapes again --images 60 --test-images 20 --image-size 40 -q
ok 'the same numbers give the same bytes' diff -r set again
run dtctl data make-shapes set
is "$status" 1 'a folder with something in it is refused'
like "$err" "'set' is not empty" 'the error names the folder that is not empty'

run dtctl data pack set shards --shard-size 1M --json
is "$status" 0 'the set is packed into shards'
is "$(grep -c '"event":"data-packed"' <<<"$out")" 2 'both parts are reported'
dtctl data pack set other --shard-size 1M -q
ok 'the same source gives the same bytes' diff -r shards other
is "$(tar tf shards/train/000000.tar | head -n 2 | tr '\n' ' ')" '000000000.cls 000000000.jpg ' \
    'tar reads them'
ok 'the shards hold the images unchanged' \
    cmp <(tar xOf shards/train/000000.tar 000000000.jpg) set/train/bar/000000.jpg
run dtctl data pack set one.dtpack --image-size 24 --resize 28
is "$status" 0 'the set is packed into pixels'
run dtctl data pack set one.dtpack
like "$err" "'one.dtpack' exists" 'an existing file is not overwritten'
mkdir flat
for class in set/train/*; do tar cf "flat/${class##*/}.tar" -C "$class" .; done

run dtctl data inspect shards
is "$status" 0 'inspect succeeds'
like "$out" 'webdataset, 60 images' 'inspect shows kind and count'
like "$out" '10 classes of 6 to 6 images' 'inspect counts the classes'
like "$out" 'width 40 to 40' 'inspect prints the sizes'
run dtctl data inspect flat --json
is "$(grep -o '"samples":60' <<<"$out")" '"samples":60' 'the number of samples is printed as JSON'
like "$out" '"kind":"tar".*"bar":6' 'the classes are printed as JSON'
like "$err" '^$|no test part' 'a data set without a test part is accepted'
run dtctl data inspect nothing
is "$status" 1 'a source that is not there is refused'
like "$err" "'nothing' does not exist" 'the error names the missing source'
run dtctl data stir set
is "$status" 2 'an unknown subcommand is a usage error'

# ---- faults --------------------------------------------------------------------------------------
cp -r set bad
victim=$(find bad/train -name '*.jpg' | sort | sed -n 5p)
echo broken >"$victim"
: >"$(dirname "$victim")/._x.jpg"
run dtctl data inspect bad
is "$status" 1 'inspect fails when an image is bad'
like "$out" "bad: '${victim}': not a readable JPEG" 'inspect names the bad image'
like "$err" '1 image of .bad. cannot be decoded' 'inspect counts the bad images'
run dtctl data pack bad whole
like "$err" "$victim" 'pack refuses it'
run dtctl data pack bad rest --skip-bad
is "$status" 0 'pack can leave out a bad image'
like "$out" '59 train images.*1 left out' 'pack counts the images that it left out'
cp -r flat cut
head -c 5000 flat/star.tar >cut/star.tar
run dtctl data inspect cut
is "$status" 1 'a cut archive fails'
like "$err" "cut/star.tar', about byte [0-9]+" 'the error names the archive and the place'
cp -r flat gz
gzip gz/star.tar
run dtctl data inspect gz
like "$err" 'gzip.*gunzip' 'gzip is refused with what to do'

# Every call that fails once ends the command cleanly, or does not matter. The first is the C
# library's, before main.
nth=$BUILD/release/tests/tools/nth_call
for source in cut flat shards set; do
    dirty=0 n=0 calls=0
    "$nth" -n 0 -c openat,pread64,mmap,getdents64,lseek -- \
        dtctl data inspect $source --split train --decode-threads 1 >/dev/null 2>&1 3>report
    calls=$(sed 's/.*calls=\([0-9]*\).*/\1/' report)
    for ((n = 2; n <= calls; n += 1 + calls / 25)); do
        "$nth" -n $n -e EIO -c openat,pread64,mmap,getdents64,lseek -- \
            dtctl data inspect $source --split train --decode-threads 1 >faults 2>&1 3>/dev/null
        [ $? -lt 128 ] || { dirty=$((dirty + 1)) && diag "call $n: $(tail -n 1 faults)"; }
    done
    ok "$source: none of $calls calls that fails is a crash" test "$calls" -gt 20 -a $dirty = 0
done

# ---- training ------------------------------------------------------------------------------------
run dtctl up --nodes 2
is "$status" 0 'up with two nodes'
run dtctl train --input data=flat --input val=set/test "${imagenet[@]}" --name flat
is "$status" 0 'a run from class archives, evaluated on a folder of its own'
like "$out" 'data tar, 60 training and 20 test images of 24x24, decoded when they are needed' \
    'the log names the kind and the size of the data'
one=$(field "$(summary)" final_loss)
run dttrain --set train.data=set "${imagenet[@]}" --set train.epochs=1 --set train.threads=0
[[ $out =~ rank\ of\ ([0-9]+)\ thread ]]
like "$out" "decoded when they are needed by ${BASH_REMATCH[1]} thread" \
    'all processors of a rank decode'
run dtctl train --input data=shards "${imagenet[@]}" --set train.decode_threads=3 --name shards
is "$status" 0 'a run from shards'
is "$(field "$(summary)" train_images)/$(field "$(summary)" test_images)" 60/20 \
    'the summary counts both parts'
like "$(tr -d '\n' <"$(summary)")" '"data":[0-9.]+' 'the wait for data is a number of its own'
run dtctl train --input data=bad "${imagenet[@]}" --name bad
unlike "$status" '^0$' 'a bad image ends a run'
like "$out$err" "not a readable JPEG.*|$(basename "$victim")" 'the error names the bad image'
run dtctl train --input data=bad "${imagenet[@]}" --set train.on_bad_sample=skip --name skip
is "$status" 0 'a run can leave out a bad image'
is "$(field "$(summary)" bad_train_samples)" 1 'a bad image is counted once over both ranks'
run dtctl train --input data=bad "${small[@]}" --set train.on_bad_sample=skip --name once
is "$(field "$(summary)" bad_train_samples)" 1 \
    'a bad image is counted once where images are decoded in advance'
run dtctl train --input data=cut --set train.eval=false "${imagenet[@]}" --name cut
unlike "$status" '^0$' 'a cut archive ends a run'
like "$out$err" 'star.tar.*byte' 'the error names the truncated archive'
like "$one" '^[0-9.]+$' 'the first run has a loss'
run dtctl down -y
is "$status" 0 'down succeeds'
done_testing
