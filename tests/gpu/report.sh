# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# report.sh: what tests/gpu/run says. Sourced by it.

json_text() { # TEXT: as a JSON string
    local text=${1//\\/\\\\}
    text=${text//\"/\\\"}
    printf '"%s"' "${text//[[:cntrl:]]/ }"
}

# report TAP JSONL: copies TAP from standard input to its output and to the file TAP; writes one
# JSON object for each point and fact; ends with the counts. Fails unless some passed and none
# failed, and the input had a plan for all of them.
report() {
    local tap=$1 json=$2 line step='' began=$EPOCHREALTIME ran=0 passed=0 failed=0 skipped=0 plan=''
    : >"$tap" && : >"$json" || return 1
    note() { # RESULT NAME
        local at=$((${EPOCHREALTIME/./} / 1000 - ${began/./} / 1000))
        printf '{"event":"point","step":"%s","result":"%s","name":%s,"at_ms":%d}\n' \
            "$step" "$1" "$(json_text "$2")" $at >>"$json"
    }
    while IFS= read -r line; do
        printf '%s\n' "$line" | tee -a "$tap"
        case $line in
        ok\ *'# SKIP '*) skipped=$((skipped + 1)) && note skipped "${line#*# SKIP }" ;;
        ok\ *) passed=$((passed + 1)) && note passed "${line#* - }" ;;
        'not ok '*) failed=$((failed + 1)) && note failed "${line#* - }" ;;
        1..*) plan=${line#1..} ;;
        '# step '*) step=${line#'# step '} step=${step%%,*} ;;
        '# fact '*) line=${line#'# fact '}
            printf '{"event":"fact","step":"%s","name":%s,"value":%s}\n' "$step" \
                "$(json_text "${line%%: *}")" "$(json_text "${line#*: }")" >>"$json" ;;
        esac
    done
    ran=$((passed + failed + skipped))
    if [ "${plan%% *}" != $ran ]; then
        failed=$((failed + 1)) && note failed 'the run did not come to its end'
        echo "not ok $((ran + 1)) - the run did not come to its end" | tee -a "$tap"
    fi
    printf '{"event":"end","passed":%d,"failed":%d,"skipped":%d,"seconds":%d}\n' \
        $passed $failed $skipped $(((${EPOCHREALTIME/./} - ${began/./}) / 1000000)) >>"$json"
    echo "$passed passed, $failed failed, $skipped skipped" | tee -a "$tap"
    [ $failed = 0 ] && [ $passed -gt 0 ]
}
