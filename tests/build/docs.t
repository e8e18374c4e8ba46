#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The documents: tables that repeat the programs' own are current, links lead somewhere, everything
# is reachable from README, and dtctl carries what it names.
source "${0%/*}/../lib.sh"
cd "$SRC" || exit 1

ok 'the tables of docs/ are current (else: make docs)' docs/tables --check

# A copy in which one cell differs is refused, and made current again.
mkdir "$WORK/copy" && cp -r docs tests "$WORK/copy/"
# shellcheck disable=SC2016 # Markdown's backquotes
sed -i 's/^| 2 | `usage` | /&wrongly: /' "$WORK/copy/docs/errors.md"
run "$WORK/copy/docs/tables" --check
is "$status" 1 'a table that differs is refused'
like "$err" 'docs/errors.md is not current; run: make docs' \
    'the error names the table and the remedy'
ok 'docs/tables writes the table' "$WORK/copy/docs/tables"
ok 'a written table equals the original' diff -r docs "$WORK/copy/docs"

topics=$(dtctl --help | tr '\n' ' ' | sed -n 's/.*topics: \([a-z, ]*\)\..*/\1/p' | tr -d ' ' |
    tr ',' '\n')
is "$topics" "$(basename -s .md docs/*.md)" 'dtctl --help names every document'
for file in docs/*.md; do
    topic=$(basename "$file" .md)
    ok "dtctl help $topic prints it" cmp <(dtctl help "$topic") "$file"
    ok "README leads to $file" grep -q "($file)" README.md
    lines=$(wc -l <"$file")
    ok "$file has at most 200 lines ($lines)" test "$lines" -le 200
done
lines=$(wc -l <README.md)
ok "README.md has at most 125 lines ($lines)" test "$lines" -le 125
verbs=$(awk -F'`' '/^<!-- table: commands/ { on = 1 } /^<!-- end/ { on = 0 }
    on && /^\| `/ { split($2, w, " "); print w[1] }' docs/commands.md | grep -vx version)
absent=$(comm -23 <(sort <<<"$verbs") <(sed -n '/^## Commands/,/^## dtrun/p' README.md |
    grep -oE '[a-z]+' | sort -u))
is "$absent" '' 'README.md names every command'
run dtctl completion man
like "$out" 'dtctl help TOPIC' 'the manual page names them, too'
run dtctl help nosuch
is "$status" 2 'a topic that does not exist is an error of usage'

# Links to files, and to headings of documents.
anchors() { # FILE: headings as GitHub names them
    sed -n 's/^#\+ //p' "$1" | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9 _-]//g; s/ /-/g'
}
dead=''
for file in README.md CONTRIBUTING.md docs/*.md tests/README.md lib/README.md; do
    while read -r link; do
        [[ $link != *://* ]] || continue
        path=${link%%#*}
        target=${file%"${file##*/}"}$path
        [ -n "$path" ] || target=$file
        [ -e "$target" ] || dead+=" $file:$link"
        [[ $link != *'#'* ]] || anchors "$target" | grep -qx -- "${link#*#}" || dead+=" $file:$link"
    done < <(grep -oE '\]\([^)]+\)' "$file" | sed 's/^](//; s/)$//')
done
is "$dead" '' 'no link is dead'

# Paths that the documents name, and layers.
absent=''
# shellcheck disable=SC2016 # Markdown's backquotes
for file in README.md CONTRIBUTING.md docs/*.md tests/README.md; do
    while read -r path; do
        compgen -G "$path" >/dev/null || absent+=" $file:$path"
    done < <(grep -oE '`(lib|cmd|kernels|tests|infra|cloud-init|benchmarks|docs)/[^` <>]*`' \
        "$file" | tr -d '`')
done
is "$absent" '' 'every path that the documents name is there'
absent=''
while read -r layer _; do
    [[ $layer == */* ]] || grep -q "^| \`$layer\` " docs/design.md || absent+=" $layer"
done < <(awk -f lib/layers.awk lib/README.md)
is "$absent" '' 'docs/design.md names every layer'

# Events that the sources write and the tables that the documents are made from.
written=$(grep -rhoE 'screen_event\(&text, &j, "[a-z-]+"\)' lib cmd | grep -oE '"[a-z-]+"')
table() { # NAME: kinds of the table in lib/ with that name
    grep -rh -A90 "define $1(X)" lib | sed '/clang-format on/q' | grep -oE 'X\("[a-z-]+"' |
        grep -oE '"[a-z-]+"' | sort -u
}
is "$(comm -23 <(sort -u <<<"$written") <(table SCREEN_EVENTS) | xargs)" '' \
    'every kind of --json object is in its table'
noted=$(grep -rhoE 'monitor_note\([^"]*"[a-z-]+"' lib cmd | grep -oE '"[a-z-]+"')
is "$(comm -3 <(sort -u <<<"$noted") <(table MONITOR_NOTES) | xargs)" '' \
    'the operator'\''s events and their table agree'
done_testing
