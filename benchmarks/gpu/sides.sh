# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154,SC2086,SC2034 # words of run; numbers are single words
# sides.sh: both sides of benchmarks/gpu/run, which sources it. Results are in $got, by
# "CASE.SIDE.WHAT", where SIDE is one of ours (f32, bf16, tf32) or a peer.
declare -A models sides batches optimizers got fds_in fds_out steps_of
failed=0

programs_made() {
    local p missing=()
    for p in "$BIN"/{dtctl,dttrain-cuda} "$BUILD/gpu/device"; do
        [ -x "$p" ] || missing+=("$p")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    say "not built: ${missing[*]}; calling make"
    within "$(left_s)" make -C "$SRC" -j"$(nproc)" programs build/gpu/device >"$out/make.log" 2>&1
    for p in "${missing[@]}"; do
        [ -x "$p" ] || refuse "$p is not there, and make did not build it (try: bring it along)"
    done
}
find_gpu() {
    gpu=$("${device[@]}" "$BIN/dttrain-cuda" --devices 2>/dev/null | grep '"device":"gpu"' |
        head -n 1)
    [[ $gpu == *'"ok":true'* ]] || refuse "no GPU can be used: ${gpu:-none is found}"
    gpu=${gpu#*'"text":"'} gpu=${gpu%\"*}
    [[ $gpu != *'(sm_75)'* ]] || dtypes=(f32 f16)
    say "$gpu"
}
find_torch() {
    python=${DTCTL_PYTHON:-$(command -v python3)} torch=
    [ -z "$python" ] || torch=$(within "$READY_S_MAX" "$python" -c \
        'import torch; print(torch.__version__)' 2>/dev/null)
    [ -n "$emulated" ] || [ -z "$torch" ] || "$python" -c \
        'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null || torch=
    if [ -n "$torch" ]; then say "PyTorch $torch"; else
        say 'no PyTorch that finds the GPU is here, so there is no peer (try: DTCTL_PYTHON)'
    fi
}
# number KEY: of the JSON on standard input
number() { sed -n "s/.*\"$1\":\([-+0-9.e]*\).*/\1/p" | head -n 1; }
find_peaks() {
    local dtype own theirs=''
    own=$(within $READY_S_MAX "${device[@]}" "$BUILD/gpu/device" device_speed 0) ||
        refuse 'the speed of the GPU cannot be measured'
    [ -z "$torch" ] || theirs=$(within $READY_S_MAX "$python" "$here/peer.py" peak)
    copy_gb=$(number copy_gb_per_s <<<"$own")
    for dtype in "${dtypes[@]}"; do
        got[peak.$dtype]=$(printf '%s\n' "$(number "$dtype" <<<"$own")" \
            "$(number "$dtype" <<<"$theirs")" | sort -g | tail -n 1)
        say "products in $dtype: $(number "$dtype" <<<"$own") TFLOP/s by our kernels," \
            "$(number "$dtype" <<<"$theirs") by PyTorch"
    done
    say "copies: $copy_gb GB/s"
    row "\"copy_gb_per_s\":$copy_gb,\"own\":$own,\"torch\":${theirs:-null}"
}

# ---- ours ---------------------------------------------------------------------------------------
# packed SIDE IMAGES: pixels of that size in a file, whose path it says
packed() {
    local path=$work/$1-$2.dtpack
    if [ ! -e "$path" ]; then
        "$BIN/dtctl" data make-shapes "$work/$1-$2" --images "$2" --test-images 8 \
            --image-size "$1" >/dev/null 2>&1 &&
            "$BIN/dtctl" data pack "$work/$1-$2" "$path" --split train --image-size "$1" \
                >/dev/null 2>&1 && rm -r "$work/$1-$2"
    fi
    echo "$path"
}
# settings CASE DTYPE STEPS: flags of a run of so many steps or more, after an epoch of warming up
settings() {
    local name=$1 batch=${batches[$1]} s each=$3 data=(dataset=shapes)
    if [ "${sides[$name]}" != 32 ]; then # pixels of a file, as often as is needed
        each=$((PACKED_IMAGES / batch))
        data=(dataset=packed "data=$(packed "${sides[$name]}" $PACKED_IMAGES)")
    fi
    flags=()
    for s in "model=${models[$name]}" "batch=$batch" "optimizer=${optimizers[$name]}" "dtype=$2" \
        eval=false "print_every=$each" resume=never "epochs=$((1 + ($3 + each - 1) / each))" \
        flip=false checkpoint_every_epochs=0 check_every=0 device=gpu lr=1e-5 \
        "train_size=$((each * batch))" test_size=8 "${data[@]}"; do
        flags+=(--set "train.$s")
    done
}
# rates: images per second from the second step of each epoch on, but for the first epoch
rates() {
    awk '/"event":"train"/ && !/"batch":1,/ && !/"epoch":0,/ {
        sub(/.*"images_per_s":/, ""); print $0 + 0 }' run/dttrain-output/metrics.jsonl
}
# ours CASE DTYPE STEPS: images per second, a line for each epoch
ours() {
    settings "$@"
    rm -rf run && mkdir run || return 1
    (cd run && within $READY_S_MAX "${device[@]}" "$BIN/dttrain-cuda" "${flags[@]}") \
        >"$out/$1.$2.log" 2>&1 && rates
}
# begin_ours CASE DTYPE: how long it takes to the first step, its memory, its floor, and a guess at
# its speed
begin_ours() {
    local name=$1 dtype=$2 key=$1.$2 began line rate plan
    settings "$name" "$dtype" "$FIRST_STEPS"
    rm -rf run && mkdir run || return 1
    watch_memory
    began=$(now_ms)
    while IFS= read -r line; do
        [[ $line != 'Epoch: '* ]] || [ -n "${got[$key.first_ms]-}" ] ||
            got[$key.first_ms]=$(($(now_ms) - began))
        printf '%s\n' "$line" >>"$out/$key.log"
    done < <(cd run && within $READY_S_MAX "${device[@]}" "$BIN/dttrain-cuda" "${flags[@]}" 2>&1)
    watched_memory "$key"
    rate=$(rates 2>/dev/null | median)
    [ -n "$rate" ] || return 1
    steps_of[$key]=$(steps_for "$rate" "${batches[$name]}")
    plan=$(within $READY_S_MAX "${device[@]}" "$BIN/dttrain-cuda" --plan --json "${flags[@]}" \
        2>>"$out/$key.log") || return 0
    got[$key.floor_ms]=$(awk -v flop="$(number step_flop <<<"$plan")" \
        -v bytes="$(number step_moved_bytes <<<"$plan")" -v tflops="${got[peak.$dtype]}" \
        -v gb="$copy_gb" 'BEGIN { a = flop / tflops / 1e9; b = bytes / gb / 1e6
            if (a + b > 0) printf("%.4f", a > b ? a : b) }')
}
steps_for() { # IMAGES_PER_S BATCH: steps of a round
    awk -v rate="$1" -v batch="$2" -v ms=$ROUND_MS -v most=$STEPS_MAX 'BEGIN {
        n = int(rate / batch * ms / 1000); n = n > most ? most : n; print(n < 2 ? 2 : n) }'
}
# One watcher at a time; it sees what processes take of the GPU's memory until it is asked. Where it
# cannot start, there is no figure.
watch_memory() {
    [ -e watch ] || mkfifo watch
    "${device[@]}" "$BUILD/gpu/device" device_memory 0 <watch >watched 2>/dev/null &
    watcher=$!
    pids+=("$watcher")
    exec 9>watch
    local i
    for ((i = 0; i < 250; i++)); do
        [ ! -s watched ] && kill -0 $watcher 2>/dev/null || return 0
        sleep 0.02
    done
}
watched_memory() { # KEY: of that side
    exec 9>&-
    wait $watcher
    got[$1.memory]=$(sed -n 2p watched)
}

# ---- PyTorch ------------------------------------------------------------------------------------
# begin_peer CASE NAME SECONDS: a process that waits for its turns
begin_peer() {
    local name=$1 peer=$2 key=$1.$2 began line ready='' in out_fd
    mkfifo "$key.in" "$key.out" || return 1
    watch_memory
    began=$(now_ms)
    "$python" "$here/peer.py" "$peer" "${models[$name]}" "${sides[$name]}" "${batches[$name]}" \
        "${optimizers[$name]}" <"$key.in" >"$key.out" 2>"$out/$key.log" 9>&- &
    pids+=($!) got[$key.pid]=$!
    exec {in}>"$key.in" {out_fd}<"$key.out"
    fds_in[$key]=$in fds_out[$key]=$out_fd
    while IFS= read -r -t "$3" line <&"$out_fd"; do
        [ "$line" != first ] || got[$key.first_ms]=$(($(now_ms) - began))
        [ "$line" != ready ] || { ready=1 && break; }
    done
    watched_memory "$key"
    if [ -z "$ready" ]; then
        left_out "$name" "$peer" "it was not ready within $3 s, or failed; see $key.log"
        end_peer "$key"
        return 1
    fi
    line=$(peer_steps "$key" 2) || return 1
    steps_of[$key]=$(steps_for "$(awk -v s="$line" -v n="${batches[$name]}" \
        'BEGIN { print 2 * n / (s > 0 ? s : 1e-6) }')" "${batches[$name]}")
}
peer_steps() { # KEY STEPS: the seconds they took
    local line
    echo "$2" >&"${fds_in[$1]}" && IFS= read -r -t $READY_S_MAX line <&"${fds_out[$1]}" &&
        echo "$line"
}
end_peer() { # KEY
    local in=${fds_in[$1]-} out_fd=${fds_out[$1]-}
    [ -n "$in" ] || return 0
    exec {in}>&- {out_fd}<&-
    kill "${got[$1.pid]}" 2>/dev/null
    wait "${got[$1.pid]}" 2>/dev/null
    unset "fds_in[$1]" "fds_out[$1]"
    rm -f "$1.in" "$1.out"
}

# ---- a case -------------------------------------------------------------------------------------
median() { sort -g | awk '{ a[NR] = $1 } END { if (NR) print a[int((NR + 1) / 2)] }'; }
# turns CASE SIDE…: rounds of all sides, in turns; images per second of each go to CASE.SIDE.rates
turns() {
    local name=$1 side round s
    shift
    for ((round = 0; round < ROUNDS; round++)); do
        for side; do
            if [ -n "${fds_in[$name.$side]-}" ]; then
                s=$(peer_steps "$name.$side" "${steps_of[$name.$side]}") &&
                    awk -v s="$s" -v n="${steps_of[$name.$side]}" -v b="${batches[$name]}" \
                        'BEGIN { print n * b / (s > 0 ? s : 1e-6) }' >>"$name.$side.rates"
            else
                if [[ $side != *f32 ]] || [ $round = 0 ]; then
                    ours "$name" "$side" "${steps_of[$name.$side]}" >>"$name.$side.rates"
                fi
            fi
        done
    done
}
bench() { # CASE
    local name=$1 dtype peer with=()
    if [ "$(left_s)" -lt $CASE_S ]; then
        left_out "$name" 'the case' "$CASE_S s are needed and $(left_s) s of the budget are left"
        return
    fi
    say "$name: ${models[$name]}, ${sides[$name]} pixels, batch ${batches[$name]}," \
        "$(left_s) s are left"
    for dtype in "${dtypes[@]}"; do
        if ! begin_ours "$name" "$dtype"; then
            failed=1
            left_out "$name" "$dtype" "dttrain-cuda failed: $(tail -n 1 "$out/$name.$dtype.log" |
                tr -cd '[:alnum:] .,:()=/' | cut -c 1-200)"
            return
        fi
    done
    [ -n "$torch" ] || PEERS=()
    for peer in "${PEERS[@]}"; do
        if [ "$(left_s)" -lt $CASE_S ]; then
            left_out "$name" "$peer" 'the time is short'
        else
            begin_peer "$name" "$peer" $READY_S_MAX && with+=("$peer")
        fi
    done
    turns "$name" "${dtypes[@]}" "${with[@]}"
    for peer in "${with[@]}"; do end_peer "$name.$peer"; done
    got[$name.peers]="${with[*]}"
}
bench_compiled() { # CASE
    local name=$1 limit
    [ -n "$torch" ] && [ -z "$emulated" ] && [ -s "$name.${dtypes[1]}.rates" ] || return 0
    limit=$(($(left_s) - 15))
    if [ $limit -lt $COMPILE_S ]; then
        left_out "$name" compiled "$COMPILE_S s are needed and $limit s of the budget are left"
        return
    fi
    say "$name: torch.compile, $(left_s) s are left"
    begin_peer "$name" compiled $((limit < COMPILE_S_MAX ? limit : COMPILE_S_MAX)) || return 0
    turns "$name" "${dtypes[1]}" compiled
    end_peer "$name.compiled"
    got[$name.peers]+=" compiled"
}
bench_cifar() {
    local summary acc small=()
    [ -z "$emulated" ] || small=(--set 'train.model=airbench(width=4)' --set train.epochs=1
        --set train.batch=40 --set train.lookahead_epochs=0 --set train.first_layer_epochs=0
        --set train.lr=0.01)
    if [ -z "$cifar" ]; then
        left_out cifar10-94 'the case' 'its data is not given (try: --cifar10 PATH)'
        return
    fi
    if [ "$(left_s)" -lt $CIFAR_S ]; then
        left_out cifar10-94 'the case' "$CIFAR_S s are needed and $(left_s) s are left"
        return
    fi
    say "CIFAR-10 to 94 %, $(left_s) s are left"
    rm -rf run && mkdir run
    (cd run && within "$(left_s)" "${device[@]}" "$BIN/dttrain-cuda" --set train.recipe=cifar10-94 \
        --set "train.data=$cifar" --set "train.dtype=${dtypes[1]}" --set train.device=gpu \
        "${small[@]}") >"$out/cifar10-94.log" 2>&1
    summary=run/dttrain-output/summary.json
    acc=$(number final_acc1 2>/dev/null <"$summary")
    if [ -z "$acc" ]; then
        failed=1
        left_out cifar10-94 'the case' 'dttrain-cuda failed; see cifar10-94.log'
        return
    fi
    cifar_row="CIFAR-10: $acc % after $(awk -v ms="$(number total <"$summary")" \
        'BEGIN { printf "%.1f", ms / 1000 }') s from the start of the process"
    row "\"case\":\"cifar10-94\",\"acc1\":$acc,\"total_ms\":$(number total <"$summary"),$(
        )\"train_ms\":$(number train <"$summary")"
}

# ---- results ------------------------------------------------------------------------------------
side_json() { # KEY: of one side
    printf '"images_per_s":%s,"memory_bytes":%s,"first_step_ms":%s' "${got[$1.rate]:-null}" \
        "${got[$1.memory]:-null}" "${got[$1.first_ms]:-null}"
}
ratio() { awk -v a="${1:-0}" -v b="${2:-0}" 'BEGIN { if (b > 0 && a > 0) printf "%.3g", a / b }'; }
finish() { # CASE: its row, and its line of the table
    local name=$1 side best='' best_rate='' fast=$1.${dtypes[1]} text='' floor
    [ -s "$fast.rates" ] || return 0
    for side in "${dtypes[@]}" ${got[$name.peers]-}; do
        got[$name.$side.rate]=$(median <"$name.$side.rates")
        text+=",\"$side\":{$(side_json "$name.$side")}"
    done
    for side in ${got[$name.peers]-}; do
        if [ -z "$best" ] || awk -v a="${got[$name.$side.rate]}" -v b="$best_rate" \
            'BEGIN { exit a <= b }'; then
            best=$side best_rate=${got[$name.$side.rate]}
        fi
    done
    floor=$(awk -v ms="${got[$fast.floor_ms]:-0}" -v batch="${batches[$name]}" \
        'BEGIN { if (ms > 0) print batch / ms * 1e3 }')
    got[$name.ratio]=$(ratio "${got[$fast.rate]}" "$best_rate")
    got[$name.floor]=$(ratio "${got[$fast.rate]}" "$floor") got[$name.best]=$best
    row "\"case\":\"$name\",\"model\":\"${models[$name]}\",\"side\":${sides[$name]},$(
        )\"batch\":${batches[$name]},\"optimizer\":\"${optimizers[$name]}\",$(
        )\"pytorch\":\"${torch:-none}\",\"best\":\"${best:-none}\",$(
        )\"ratio\":${got[$name.ratio]:-null},\"of_floor\":${got[$name.floor]:-null},$(
        )\"floor_ms\":${got[$fast.floor_ms]:-null}$text"
}
of() { awk -v a="$1" -v b="$2" 'BEGIN { print a / b }'; }
table() {
    local name fast
    printf '%-10s %10s %10s %10s  %-9s %10s %6s %6s %9s %8s\n' case f32/s tf32/s "${dtypes[1]}/s" \
        'best peer' 'its img/s' ratio floor 'memory MB' 'first s'
    for name in "${names[@]}"; do
        fast=$name.${dtypes[1]}
        [ -n "${got[$fast.rate]-}" ] || continue
        printf '%-10s %10.0f %10.0f %10.0f  %-9s %10.0f %6s %6s %9.0f %8.1f\n' "$name" \
            "${got[$name.f32.rate]:-0}" "${got[$name.tf32.rate]:-0}" "${got[$fast.rate]}" \
            "${got[$name.best]:-none}" \
            "${got[$name.${got[$name.best]:-none}.rate]:-0}" "${got[$name.ratio]:--}" \
            "${got[$name.floor]:--}" "$(of "${got[$fast.memory]:-0}" 1e6)" \
            "$(of "${got[$fast.first_ms]:-0}" 1e3)"
    done
    [ -z "${cifar_row-}" ] || echo "$cifar_row"
    echo "images per second; ratio to the best peer, share of the floor's speed; $json"
}
