#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every barrier, wait and condition of the shipped CUDA kernels is needed: the interpreter takes
# it away (emu/change.c lists the changes, case_changes.h makes them), and a fault or a result must
# show it. tests/gpu/needless explains the exceptions. Every barrier and wait is tried, and all
# conditions but those of the products, of which one in EACH is: SWEEP=all in the environment tries
# all of them, and those of sm_75; SWEEP_SEED=N others.
source "${0%/*}/shipped.sh"
source "${0%/*}/../lib.sh"
EACH=8
LIST=$SRC/tests/gpu/needless
cuda_needed
[ "${SWEEP-}" != all ] || EACH=1

# code FILE: without spaces, comments, and the places of the source
# shellcheck disable=SC2016 # a pattern
code() {
    sed -nE 's/\/\/.*//; s/[ \t]+//g; /^\.section/q; /^\.(loc|file)|^\$L__tmp/d; /./p' "$1"
}
shipped
for file in ptx80/*.ptx ptx90a/*.ptx; do
    source=${file##*/} source=${source%.ptx}
    is "$(code "$GPU/lines/$source.ptx" | cksum)" "$(code "$file" | cksum)" \
        "$source: places of the source do not change the code"
done

# changes EACH PROGRAM FAMILY…: one line for each change
changes() {
    local each=$1 program=$2 folder=${FOLDER-$GPU/lines} held
    CASE_CHANGES=$each CASE_CHANGES_SEED=${SWEEP_SEED:-1} \
        "$GPU/test_cuda_$program" "$folder" "${@:3}" >report 2>report.err && held=1 || held=0
    result $held "${folder##*/}: $program with changes" ||
        diag "$(grep -A 3 '^not ok\|^Bail' report)" "$(cat report.err)"
    grep '^change ' report >>changed
}
changes 1 flat
changes 1 layers
changes 1 rows
changes $EACH product
# The conditions of kernels for 9.0 are those of the large products, which have been tried.
hopper=(acts hopper)
[ $EACH != 1 ] || hopper+=(hopper_edges hopper_counts)
CASE_CAPABILITY=90 changes $((EACH == 1 ? 1 : 10000)) product "${hopper[@]}"
if [ $EACH = 1 ]; then
    mkdir old && cp "$GPU"/lines/*.ptx old
    (cd "$SRC" && "$cuda/bin/nvcc" -std=c++17 -I. -arch=compute_75 -lineinfo -ptx \
        -o "$WORK/old/product.ptx" kernels/cuda/product.cu) ||
        bail_out 'product.cu does not compile for sm_75'
    CASE_CAPABILITY=75 FOLDER=old changes 1 product gemm conv
fi

# Programs share kernels, and kernels share places: a change of a kernel counts as found where one
# program finds it, and a place as reached where one kernel reaches it. A loop that runs at least
# once has a branch around it that is never taken.
awk -v list="$LIST" -v all=$((EACH == 1)) '
    function trimmed(s) { gsub(/^ +| +$/, "", s); return s }
    function text(place, parts, file, line, n) {
        split(place, parts, ":"); file = parts[1]
        if (!(file in known)) {
            known[file] = 1
            while ((getline line <(src "/" file)) > 0) at[file ":" ++n] = trimmed(line)
        }
        return at[file ":" parts[2]]
    }
    function needless(place, change, i) {
        for (i = 1; i <= rows; i++)
            if (index(place, row_file[i] ":") == 1 && row_change[i] == change &&
                index(text(place), row_text[i])) { used[i] = 1; return 1 }
        return 0
    }
    BEGIN {
        FS = "[|]"
        while ((getline <list) > 0) if ($0 !~ /^#/ && NF) {
            row_file[++rows] = trimmed($1); row_text[rows] = trimmed($2)
            row_change[rows] = trimmed($3)
            if (NF != 4 || trimmed($4) == "") print "needless: not four parts: " $0
        }
        FS = " "
    }
    {
        state = $2; kernel = $3; place = $4; sub(/.*\//, "", place)
        change = $5; for (i = 6; i < NF; i++) change = change " " $i
        sub(/:$/, "", change)
        key = place SUBSEP change
        if (state == "found") { found[kernel, key] = 1; seen[key] = 1 }
        if (state == "found" && change == "never repeated") loop[place] = 1
        keys[kernel SUBSEP key] = 1
        if (state == "missed") missed[kernel, key] = 1
        tried += state != "left"
        if (state == "left") { left[kernel, key] = 1; seen[key] = 1 } # another kernel may reach it
    }
    END {
        for (k in keys) {
            if ((k in found) || (k in left)) continue
            split(k, part, SUBSEP); place = part[2]; change = part[3]; key = place SUBSEP change
            if (!(k in missed) && ((key in seen) || (place in loop && change ~ /taken/))) continue
            if (!needless(place, change))
                print ((k in missed) ? "missed: " : "not reached: ") part[1] " " place " " \
                    change ": " text(place)
        }
        for (i = 1; all && i <= rows; i++)
            if (!(i in used)) print "needless: no longer: " row_file[i] " | " row_text[i]
        print tried >"tried"
    }' src="$SRC/kernels/cuda" changed | sort >wrong
is "$(cat wrong)" '' 'no barrier, wait or condition can be taken away unseen'
diag "changes: $(cat tried)"
ok 'there are barriers, waits and conditions' [ "$(cat tried)" -gt 700 ]
done_testing
