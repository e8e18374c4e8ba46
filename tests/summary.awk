# SPDX-License-Identifier: Apache-2.0
# summary.awk: the end of tests/run. Reads NAME.tap of each program, with its exit status in
# NAME.status and its seconds (real, user, system) in NAME.time; where there is a NAME.tap.first, the
# program failed at first and ran once more. Prints what those said at first, reasons of skips,
# failures with what was said about the first of each program, where the time went, and the counts.
BEGIN { points_max = 8; reasons_max = 16; longest_max = 5 }

# The first point of a program's output that failed, with the last lines said about it.
function failure(path,   line, point, about, said, i) {
    while ((getline line < path) > 0)
        if (point == "" && line ~ /^not ok/) point = "\n    " line
        else if (point != "" && line ~ /^#/) about[said++] = line
        else if (point != "") break
    close(path)
    for (i = said > reasons_max ? said - reasons_max : 0; i < said; i++)
        point = point "\n      " substr(about[i], 1, 300)
    return point
}

function exists(path,   line, result) {
    result = (getline line < path) >= 0
    close(path)
    return result
}

function add_time(   line, took) {
    if ((getline line < (base ".time")) <= 0 || split(line, took, " ") != 3) return
    processor_s += took[2] + took[3]
    real_s[name] = took[1]
}

# The programs that took longest, each with its seconds.
function longest(   n, name, text, top) {
    for (n = 0; n < longest_max; n++) {
        top = ""
        for (name in real_s) if (top == "" || real_s[name] > real_s[top]) top = name
        if (top == "") break
        text = text (n ? ", " : "") top " " int(real_s[top] + 0.5)
        delete real_s[top]
    }
    return text
}

function finish() {
    if (file == "") return
    add_time()
    getline status < (base ".status")
    if (bad == 0 && (status != 0 || plan != ran)) {
        bad++
        why = status != 0 ? "exit status " status : "plan " plan ", ran " ran
        names = names "\n    " why
    }
    failed += bad
    if (bad > points_max) names = names "\n    and " bad - points_max " more"
    if (bad) broken = broken "\n  " name names
    else if (exists(base ".tap.first")) shaky = shaky "\n  " name failure(base ".tap.first")
}

FNR == 1 {
    finish()
    file = FILENAME; base = file; sub(/\.tap$/, "", base)
    name = base; sub(/.*\//, "", name); gsub(/%/, "/", name)
    bad = 0; ran = 0; plan = -1; names = ""; status = 1
}
/^1\.\.0 *# *[Ss][Kk][Ii][Pp]/ { skipped++; plan = 0; sub(/^[^#]*# *[A-Za-z]* */, "")
    reasons[$0 == "" ? "no reason given" : $0]++; next }
/^1\.\.[0-9]+/ { plan = substr($1, 4) + 0; next }
/^ok / && /# *[Ss][Kk][Ii][Pp]/ { ran++; skipped++; sub(/^[^#]*# *[A-Za-z]* */, "")
    reasons[$0 == "" ? "no reason given" : $0]++; next }
/^ok / { ran++; passed++; next }
/^not ok/ {
    ran++
    if (++bad == 1) names = failure(FILENAME)
    else if (bad <= points_max) names = names "\n    " $0
    next
}
END {
    finish()
    if (shaky != "") print "Failed beside others, passed alone (" dir "/*.first):" shaky
    for (r in reasons) lines = lines "\n  " reasons[r] "x " r
    if (lines != "") print "Skipped:" lines
    if (broken != "") print "Failed (rerun one with `make test T=name`; output in " dir "):" broken
    if (processor_s > 0)
        printf "Seconds: %d of a processor; the longest: %s\n", processor_s, longest()
    printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
    exit failed > 0
}
