#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# DTCTL_INPUT_<NAME>_LIST of copied inputs: what the node has, as it is, and its place in the whole.
# shellcheck disable=SC2016 # workers expand their own variables
source "${0%/*}/../lib.sh"
source "$SRC/tests/s3.sh"

s3_start PAGE=1000
mkdir -p set/sub
for i in 0 1 2 3 4; do head -c $((i * 70000)) /dev/urandom >"set/part $i"; done
echo x >set/sub/y
dtdata put set s3://bucket/set >put.out || bail_out "$(cat put.out)"
dtctl up --nodes 2 >made.log 2>&1 || diag "$(cat made.log)"

# Compares the list with the folder, and prints "INDEX PATH" of each file.
cat >look.py <<'END'
import hashlib, json, os
where, out = os.environ["DTCTL_INPUT_SET"], os.environ["DTCTL_OUTPUT_DIR"]
rows = [json.loads(line) for line in open(os.environ["DTCTL_INPUT_SET_LIST"])]
folder = where if os.path.isdir(where) else os.path.dirname(where)
files = sorted(os.path.relpath(os.path.join(top, name), folder)
               for top, _, names in os.walk(folder) for name in names)
assert sorted(row["path"] for row in rows) == files, (rows, files)
for row in rows:
    data = open(os.path.join(folder, row["path"]), "rb").read()
    assert len(data) == row["size"] and hashlib.sha256(data).hexdigest() == row["sha256"], row
with open(f"{out}/{os.environ['RANK']}", "w") as f:
    f.writelines(f"{row['index']} {row['path']}\n" for row in rows)
END
all='0 part 0
1 part 1
2 part 2
3 part 3
4 part 4
5 sub/y'
look() { # NAME ARGUMENTS…
    run dtctl train --nproc-per-node 1 --file look.py --name "$@" -- python3 look.py
    is "$status" 0 "the list of $1 is what the node has" || diag "$out$err"
}
parts() { cat "$(newest_run "$1")"/output/[01] | sort -n; } # NAME
for source in set s3://bucket/set; do
    name=${source%%:*}
    look "$name-all" --input set=$source
    is "$(cat "$(newest_run "$name-all")/output/1")" "$all" "$source: every node has all"
    look "$name-part" --input set=$source:sharded
    is "$(parts "$name-part")" "$all" "$source: each file is on one node, with its index"
    look "$name-count" --input set=$source:sharded --set inputs.set.shard=count
    is "$(cat "$(newest_run "$name-count")/output/1")" '1 part 1
3 part 3
5 sub/y' "$source: the list follows the deal"
    look "$name-again" --input set=$source
    look "$name-file" --input "set=$source/part 1"
    is "$(cat "$(newest_run "$name-file")/output/0")" '0 part 1' \
        "$source: one file is a list of one"
done
mkdir -p tars/in
for i in 1 2 3 4 5 6; do echo "$i" >"tars/in/$i.txt" && echo "$i" >"tars/in/$i.cls"; done
tar -C tars/in -cf tars/a.tar . && rm -r tars/in
echo classes >tars/classes
look samples --input set=tars:sharded --set inputs.set.unit=sample
is "$(cat "$(newest_run samples)/output/1")" '0 a.tar
1 classes' 'a part of an archive is listed as it is on the node'
run dtctl train --nproc-per-node 1 --input one=look.py --input two=set --shell \
    'ls $DTCTL_INPUT_ONE_LIST $DTCTL_INPUT_TWO_LIST'
is "$status" 0 'every input has its list'
s3_stop
run dtctl down -y --force
done_testing
