# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# s3.sh: for tests with objects. Sourced after lib.sh. A server of the S3 protocol (tools/s3.py),
# and the variables of AWS's tools that name it and its key.

unset "${!AWS_@}" SSL_CERT_FILE

s3_start() { # [NAME=VALUE…]: sets S3 to its address
    local word address=127.0.0.1
    for word; do [[ $word != ADDRESS=* ]] || address=${word#*=}; done
    rm -f "$WORK/s3.port"
    env "$@" python3 "$SRC/tests/tools/s3.py" "$WORK/s3.port" \
        2>"$WORK/s3.err" &
    S3_PID=$!
    wait_for 10 test -s "$WORK/s3.port" || bail_out "$(cat "$WORK/s3.err")"
    S3=http://$address:$(cat "$WORK/s3.port")
    export AWS_ENDPOINT_URL=$S3 AWS_ACCESS_KEY_ID=AKTEST AWS_SECRET_ACCESS_KEY=SECRETTEST
    export AWS_EC2_METADATA_DISABLED=true NO_PROXY=$address
}

s3_stop() {
    [ -z "${S3_PID-}" ] || kill "$S3_PID" 2>/dev/null
    S3_PID=
}
at_end s3_stop

# One request to the server's own pages: prints the body of an answer with status 200 and a newline.
s3_ask() { # PATH
    local host=${S3#*://} connection status line
    exec {connection}<>"/dev/tcp/${host%:*}/${host##*:}" || return
    printf 'GET %s HTTP/1.0\r\n\r\n' "$1" >&"$connection"
    {
        IFS= read -r status
        while IFS= read -r line && [ "$line" != $'\r' ]; do :; done
        [[ $status = 'HTTP/1.'?' 200 '* ]] && cat && echo
    } <&"$connection"
    status=$?
    exec {connection}>&-
    return "$status"
}
s3_fault() { # KIND KEY [COUNT]
    s3_ask "/-/fault?kind=$1&key=$2&count=${3:-1}" >/dev/null
}
