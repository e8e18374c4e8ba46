#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every check of our own that `make lint` runs refuses what it is there to refuse, and nothing else.
source "${0%/*}/../lib.sh"
lint=$SRC/tests/lint

mkdir -p tree/lib/base tree/lib/sys tree/lib/odd tree/cmd/x
printf '| %s | %s | words |\n' layer 'may include' base '' sys base conf 'base sys' \
    >tree/lib/README.md
echo '#include "base/err.h"' >tree/lib/sys/good.c
mkdir tree/lib/conf
printf '#include "%s"\n' base/err.h sys/loop.h >tree/lib/conf/good.c
run "$lint/layers" tree
is "$status" 0 'layers: an arrow that points down passes'
echo '#include "base/err.h"' >tree/lib/conf/good.c
run "$lint/layers" tree
is "$status:$out" '1:lib/README.md: no file of conf includes sys' 'layers: an unused grant does not'
echo '#include "sys/loop.h"' >tree/lib/base/bad.c
echo '#include "../base/err.h"' >tree/lib/sys/dots.c
printf '#include <base/err.h>\n#include <sys/types.h>\n' >tree/lib/sys/angle.c
echo 'int err;' >tree/lib/base/err.h
echo 'int x;' >tree/lib/odd/x.c
run "$lint/layers" tree
is "$status" 1 'layers: a bad include is refused'
like "$out" 'lib/base/bad.c:1: base must not include sys' \
    'layers: an arrow that points up is refused'
like "$out" 'lib/sys/dots.c:1: write' 'layers: a path with dots is refused'
like "$out" 'lib/sys/angle.c:1: write "base/err.h" in quotes' \
    'layers: an own header in angle brackets is refused'
unlike "$out" 'angle.c:2' 'layers: system headers are allowed'
like "$out" 'layer odd is not in' 'layers: an unknown folder is refused'
mkdir -p gpu/kernels/cuda gpu/lib/base
printf '| %s | %s | words |\n' layer 'may include' base '' kernels '' >gpu/lib/README.md
printf '#include "%s"\n' kernels/cuda/rows.cuh base/err.h >gpu/kernels/cuda/a.cu
cp gpu/kernels/cuda/a.cu gpu/kernels/cuda/rows.cuh
run "$lint/layers" gpu
is "$status:$out" '1:kernels/cuda/a.cu:2: kernels must not include base ("base/err.h")
kernels/cuda/rows.cuh:2: kernels must not include base ("base/err.h")' 'layers: CUDA is read, too'

mkdir -p lib/x cmd
printf 'void f(void) {\n    strcpy(a, b); // sprintf(\n    puts("system(1)");\n}\n' >lib/x/a.c
printf 'void f(void) {\n    puts("x");\n    o->exit(1);\n    /* gets( */\n    f = system;\n}\n' \
    >cmd/a.c
run "$lint/calls" lib/x/a.c cmd/a.c
is "$status" 1 'calls: a banned call is refused'
is "$out" $'lib/x/a.c:2: strcpy() is banned everywhere\n'\
$'lib/x/a.c:3: puts() is banned in libraries\ncmd/a.c:5: system() is banned everywhere' \
    'calls: exactly the three, not those in comments, strings, members and programs'
printf '%s\n' 'void f(void) {' '    g(getenv("HOME"));' '    s->environ = 1; // environ' \
    '    h(environ[0]);' '}' >lib/x/b.c
cp lib/x/b.c cmd/b.c
run "$lint/calls" lib/x/b.c cmd/b.c
is "$status:$out" $'1:lib/x/b.c:2: getenv() is banned in libraries\n'\
$'lib/x/b.c:4: environ is banned in libraries' \
    'calls: a library does not read the environment of the process'

mkdir -p lib/aws
printf '%s\n' 'void f(void) {' '    g(c->aws.region); // c->aws.region' '    h(&c->aws);' \
    '    i(c->aws_old, "c->aws.tags");' '}' >lib/x/c.c
cp lib/x/c.c lib/aws/c.c && cp lib/x/c.c cmd/c.c
run "$lint/calls" lib/x/c.c lib/aws/c.c cmd/c.c
is "$status:$(grep -cE '^(lib/x|cmd)/c.c:[23]: settings of \[aws\]' <<<"$out"):$(wc -l <<<"$out")" \
    1:4:4 'calls: only the layer of the provider reads its settings'

mkdir -p words/lib/net words/cmd/x
printf '%s\n' 'int ring_open(int a,' '              int b) {' '}' 'static int other(void) {' '}' \
    'int net_close(void) {' '}' 'int link_add(int a) {' '}' >words/lib/net/ring.c
: >words/lib/net/links.h
echo 'int main(void) {' >words/cmd/x/main.c
ok 'prefixes: the name of the file, of a header or of the folder is accepted' "$lint/prefixes" words
printf '%s\n' 'struct a *tube_open(int a) {' '}' >>words/lib/net/ring.c
run "$lint/prefixes" words
is "$status:$out" '1:lib/net/ring.c:10: tube_open() does not carry the name of its file' \
    'prefixes: another name is refused'
mkdir -p nested/lib/net/rings
: >nested/lib/net/links.h
printf '%s\n' 'int link_up(int a) {' '}' 'int net_up(int a) {' '}' 'int tube_open(int a) {' '}' \
    >nested/lib/net/rings/rings.c
run "$lint/prefixes" nested
is "$status:$out" '1:lib/net/rings/rings.c:5: tube_open() does not carry the name of its file' \
    'prefixes: a folder in a layer is read, with the names of the layer'

mkdir -p waits/tests/x
printf '%s\n' 'a >once.log 2>twice.log &' 'wait_for 5 grep -q x twice.log' 'b >own.log' \
    'c 2>here.log &' 'wait_for 5 grep -q x here.log own.log' 'd >here.log' >waits/tests/x/a.t
ok 'waits: a file of which one command is the writer is accepted' "$lint/waits" waits
printf '%s\n' "c \\" '    2>twice.log &' 'come() { grep -q x "twice.log"; }' 'wait_for 5 come' \
    'e >own.log &' '# wait_for own.log' 'strictly 5 grep -q x own.log' >>waits/tests/x/a.t
run "$lint/waits" waits
is "$status:$(cut -d : -f 1,2 <<<"$out" | paste -sd ' ')" '1:tests/x/a.t:10 tests/x/a.t:13' \
    'waits: a file that an earlier command has written is refused'
printf '%s\n' 'trap here EXIT' 'source /t/lib.sh' 'trap - EXIT' >waits/tests/x/a.t
ok 'waits: a script without lib.sh has a trap of its own' "$lint/waits" waits
echo "trap 'here; at_exit' EXIT" >>waits/tests/x/a.t
run "$lint/waits" waits
like "$status:$out" '^1:tests/x/a.t:4: a trap for EXIT .*at_end' \
    'waits: a trap in the place of that of lib.sh is refused'

mkdir -p named/lib/net named/cmd/x named/kernels/cuda
printf 'struct %s {\n};\n' ring >named/lib/net/ring.h
printf 'struct %s {\n};\n' flag >named/cmd/x/flags.h
printf 'struct %s {\n};\n' inner ring_state >named/lib/net/ring.c
printf 'template <int N> struct %s {\n};\n' tile >named/kernels/cuda/tile.cuh
printf 'struct %s {\n};\n' wide 'slope : wide' >named/kernels/cuda/a.cu
ok 'names: types of different names are accepted' "$lint/names" named
printf 'union %s {\n};\n' ring >>named/cmd/x/main.c
printf 'struct %s {\n};\n' flag >>named/lib/net/ring.c
printf 'enum %s {\n};\n' ring >>named/lib/net/tube.h
printf 'struct %s {\n};\n' flag >>named/kernels/cuda/tile.cuh
printf 'template <class T, int N> struct %s {\n};\nstruct %s {\n};\n' tile 'flag : wide' \
    >>named/kernels/cuda/a.cu
run "$lint/names" named
is "$status" 1 'names: a second type of one name is refused'
is "$(sort <<<"$out")" 'cmd/x/main.c:1: the name ring is that of a type in lib/net/ring.h
kernels/cuda/a.cu:5: the name tile is that of a type in kernels/cuda/tile.cuh
kernels/cuda/a.cu:7: the name flag is that of a type in cmd/x/flags.h
kernels/cuda/tile.cuh:3: struct flag is declared in cmd/x/flags.h, too
lib/net/ring.c:5: the name flag is that of a type in cmd/x/flags.h
lib/net/tube.h:1: enum ring is declared in lib/net/ring.h, too' \
    'names: of two headers, and of a source and a header, in CUDA, too'

printf '%s\n' '// What a node has that leaves.' 'int told; // "told" by a node' \
    '// The tools of a node: nobody uses them.' 'puts("// whoever");' \
    '// Somewhat. Who comes is told.' >lib/x/c.c
printf '%s\n' 'echo "$# told"' '# A run that goes on.' >cmd/d
run "$lint/words" lib/x/c.c cmd/d
is "$status" 1 'words: a bad word is refused'
is "$(cut -d'"' -f1,2 <<<"$out")" 'lib/x/c.c:1: the word "What
lib/x/c.c:2: the word "told
lib/x/c.c:3: the word "nobody
lib/x/c.c:5: the word "Who
lib/x/c.c:5: the word "told
cmd/d:2: the word "goes on' 'words: comments are checked, strings and code are not'
printf '%s\n' '// Whatever the node sends is checked.' 'int who;' >lib/x/c.c
run "$lint/words" lib/x/c.c
is "$status:$out" 0: 'words: a part of another word is allowed'
echo 'int f(void); // a run that goes on' >lib/x/k.cu
cp lib/x/k.cu lib/x/k.cuh
# shellcheck disable=SC2016 # backquotes of a document
printf '%s\n' 'A run goes on. The word `nobody` and "told" are quoted.' '' '    nobody' '```' \
    'nobody' '```' '| key | Who reads it. |' '- What comes.' '# Whatever' >cmd/d.md
run "$lint/words" lib/x/k.cu lib/x/k.cuh cmd/d.md
is "$status" 1 'words: a bad word in a document is refused'
is "$(cut -d'"' -f1,2 <<<"$out" | sort)" 'cmd/d.md:1: the word "goes on
cmd/d.md:7: the word "Who
cmd/d.md:8: the word "What
lib/x/k.cu:1: the word "goes on
lib/x/k.cuh:1: the word "goes on' 'words: CUDA and prose are checked, code and quotations are not'
mkdir -p tests/x
printf '%s\n' "like \"\$err\" 'it is' 'and says why'" "ok 'nor does a second' test -e x" \
    "is 1 1 'the error says why'" "say 'and not a test'" >tests/x/a.t
printf '%s\n' 'is_int(f(a), 1,' '       "%s: which is told", name);' 'ok(a, "a is set");' \
    'puts("and more");' >tests/x/test_b.c
run "$lint/words" tests/x/a.t tests/x/test_b.c
is "$status:$(cut -d: -f1,2 <<<"$out" | xargs)" '1:tests/x/a.t:1 tests/x/a.t:2 tests/x/test_b.c:2' \
    'words: a fragment as the name of a test is refused'

measure=$WORK/measure
ok 'measure compiles' gcc -O1 -o "$measure" "$lint/measure.c"
body() { # LINES
    printf '// %s\n' 'SPDX-License-Identifier: Apache-2.0' 'A long function.'
    printf 'static int f(int a,\n             int b) {\n'
    yes '    a++;' | head -n "$1"
    echo '}'
}
body 67 >edge.c
run "$measure" edge.c
is "$status:$err" 0: 'measure: a function of 70 lines passes'
body 68 >long.c
run "$measure" long.c
like "$err" 'long.c:3: lines in this function: 71' 'measure: a function of 71 lines is refused'
printf '// SPDX-License-Identifier: Apache-2.0\n// %s\n' "a $(printf 'é%.0s' {1..95})" >wide.c
run "$measure" wide.c
is "$status:$err" 0: 'measure: 100 columns of wide characters pass'
printf '// SPDX-License-Identifier: Apache-2.0\n// %s\n' "a $(printf 'é%.0s' {1..96})" >wide.c
run "$measure" wide.c
like "$err" 'wide.c:2: columns: 101' 'measure: 101 do not'
{ echo '// SPDX-License-Identifier: Apache-2.0' && yes '' | head -n 500; } >file.c
run "$measure" file.c
like "$err" 'lines in this file: 501' 'measure: a file of 501 lines is refused'
echo 'int x;' >bare.c
run "$measure" bare.c
like "$err" 'SPDX' 'measure: a file without a licence line is refused'
printf '// SPDX-License-Identifier: Apache-2.0\n%s\n' 'int x;' >bare.c
printf '# SPDX-License-Identifier: Apache-2.0\n#\n' >bare.sh
run "$measure" bare.c bare.sh
is "$status:$(cut -d' ' -f1,2 <<<"$err" | xargs)" '1:bare.c:2: no bare.sh:2: no' \
    'measure: a file without a line on its purpose is refused'
done_testing
