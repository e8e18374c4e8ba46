#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# report: pages of one run and of several, their content, foreign texts in them, errors, and size.
# shellcheck disable=SC2016,SC2317 # the workers' shell expands; called by name
source "${0%/*}/../lib.sh"
runs=.dtctl/default/runs

# page FILE: well-formed, without a script, a handler of events, or an address to load from.
cat >page.py <<'END'
import html.parser, re, sys
class Page(html.parser.HTMLParser):
    void = {"meta", "br"}
    stack, tags, policy = [], {}, ""
    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "img", "iframe", "link", "object", "embed", "a", "form"), tag
        for name, value in attrs:
            assert not name.startswith("on") and name not in ("src", "href", "style"), (tag, name)
            if value and value.startswith("default-src"):
                self.policy = value
        self.tags[tag] = self.tags.get(tag, 0) + 1
        if tag not in self.void:
            self.stack.append(tag)
    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.void:
            self.stack.pop()
    def handle_endtag(self, tag):
        assert self.stack and self.stack.pop() == tag, (tag, self.stack, self.getpos())
text = open(sys.argv[1], encoding="utf-8").read()
page = Page()
page.feed(text)
page.close()
assert page.stack == [], page.stack
assert page.policy.startswith("default-src 'none'") and "http" not in page.policy, page.policy
assert len(text.encode()) < 1000000, len(text)
for points in re.findall(r'points="([^"]*)"', text):
    assert re.fullmatch(r"(\d{1,4},\d{1,4} )+", points), points[:100]
print(page.tags)
END
page() {
    ok "$1 is well-formed, and loads nothing" python3 page.py "$1"
}
has() { # FILE TEXT DESCRIPTION
    ok "$3" grep -qF -- "$2" "$1"
}

run dtctl report
is "$status:$out" 1: 'without runs there is no report'
cat >dtctl.toml <<'END'
[metrics]
loss = "loss=(\\S+)"
speed = "speed=(\\S+)"
[monitor]
interval = "0"
END
dtctl up --nodes 2 >made.log 2>&1 || diag "$(cat made.log)"
cat >work.sh <<'END'
for i in 1 2 3 4 5 6 7 8 9 10; do
    echo "loss=$(awk -v i=$i -v l=$1 'BEGIN { print l / i }') speed=$((RANK * 100 + i))"
    sleep 0.02
    [ $RANK != 3 ] || sleep 0.09
done
[ "$2" != fail ] || { echo '</script><img src=x onerror=alert(1)>' >&2; [ $RANK != 1 ] || exit 7; }
END
train() { # NAME ARGUMENT…
    dtctl train --name "$1" "${@:2}" >train.log 2>&1
}
mkdir data && echo one >data/1 && echo two >data/2
train good --nproc-per-node 2 --input d=data:sharded -- sh work.sh 0.8 '<b onclick=x>' ||
    diag "$(cat train.log)"
run dtctl report
file=$(echo $runs/good-*/report.html)
is "$status:$out:$err" "0:$file:" 'report prints the path of its file'
page "$file"
has "$file" '<p class="verdict good">finished, exit status 0' 'the verdict comes first'
has "$file" '<h2>Time line, ' 'a time line'
has "$file" 'The productive share (ETTR) is not known' 'a command does not say what was productive'
like "$(grep -o 'All ranks ran in [0-9.]* %' "$file")" ' [1-9]?[0-9]\.[0-9] %$' \
    'the share of the time in which all ranks ran'
has "$file" '<h3>loss <small>by time since the run was made' 'a plot of a metric'
has "$file" '<title>rank 3</title>' 'a curve for each rank'
has "$file" '<tr><td>node0</td><td>0-1</td><td>finished</td><td>all 0</td>' 'nodes and ranks'
has "$file" '<tr><td>d</td><td>sharded</td><td>node1</td><td>1</td>' 'the share of each node'
has "$file" 'sh work.sh 0.8 &#39;&lt;b onclick=x&gt;&#39;' 'the command, escaped'
has "$file" '<td>workers-started</td>' 'events'
has "$file" '<tr><td>slowest rank</td><td>3: 0.1' 'the slowest rank'
has "$file" 'Rank 3 takes 0.1' 'what to do about it'
unlike "$(cat "$file")" '<tr><td>(files|setup|after)</td>' \
    'digests say nothing on the page of one run'
unlike "$(cat "$file")" 'http:|https:' 'no address'
samples=$(echo $runs/good-*/nodes/node1)/samples.jsonl
start=$(sed -n 's/^{"time_ms":\([0-9]*\).*/\1/p' $runs/good-*/events.jsonl | head -n 1)
gpus='"gpu_percent":[20,40],"gpu_memory_mib":[100,300],"gpu_limit_mib":[1000,1000]'
for i in 1 2 3; do
    echo "{\"time_ms\":$((start + i * 2000)),\"cpu_percent\":$((i * 10)),$gpus,\"x\":\"<b>\"}"
done >"$samples"
printf '{"time_ms":"<img>","cpu_percent":1e999}\nno json\n' >>"$samples"
dtctl report good >/dev/null
page "$file"
has "$file" '<h3>GPUs in use, % <small>' 'the load of the nodes'
has "$file" '<h3>memory of GPUs in use <small>' '  and the memory of their GPUs'
has "$file" '>400 MB</text>' '  in bytes that people read'
has "$file" 'Not read: 2 lines of ' '  lines that are no samples are counted'
has "$file" '<title>node 1</title>' '  with a curve for each node'
rm "$samples"
run dtctl --json report good -o "$WORK/out.html"
page out.html
is "$(python3 -c 'import json, sys
j = json.loads(sys.argv[1])
print(j["event"], len(j["runs"]), j["points"], j["problems"], j["bytes"])' "$out")" \
    "report 1 80 [] $(stat -c %s out.html)" '--json has the file, its bytes and its points'

# ---- a failed run, and foreign texts
train bad --nproc-per-node 1 -- sh work.sh 0.4 fail
bad=$(basename $runs/bad-*)
{
    printf '{"time_ms":1,"node":"<i>","kind":"</td><script>x","peer":"\\u0000\\u001b[31m<b>"}\n'
    printf '{"time_ms":%d,"node":"node0","kind":"round","round":999999999,"rank":-5}\n' 1 2
} >>$runs/"$bad"/events.jsonl
printf '{"time_ms":1,"name":"%s","rank":1,"value":1}\n' '</script><img onerror=x>' loss \
    >>$runs/"$bad"/metrics.jsonl
printf '{"time_ms":99999999999999999,"name":"loss","rank":0,"value":%s}\n' null 1e999 -1e308 \
    >>$runs/"$bad"/metrics.jsonl
run dtctl report "$bad"
is "$status" 0 'a failed run has a report'
bad=$runs/$bad/report.html
page "$bad"
has "$bad" '<p class="verdict bad">failed, exit status' 'the verdict is the failure'
has "$bad" "Rank 1 on node &#39;node1&#39; failed first: exit status 7." 'the first failure'
has "$bad" '&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;' 'the last lines, harmless'
has "$bad" '<td>&lt;i&gt;</td><td>&lt;/td&gt;&lt;script&gt;x</td>' \
    'foreign events, harmless'
has "$bad" '2 values are not finite' 'values that are not finite are counted'

train bad --nproc-per-node 1 -- true # the same task, which now finishes
sleep 1
train bad --nproc-per-node 1 -- false
run dtctl --json report bad
newest=$(dirname "$(grep -l 'state = "failed"' $runs/bad-*/run.toml | tail -n 1)")
like "$out" "${newest##*/}" \
    'a task has the report of its newest run, also if that failed'

# ---- a run without a follower
train alone -d --nodes 1 --nproc-per-node 2 -- sh -c 'for i in 1 2 3 4 5 6; do
    echo loss=$i speed=1; sleep 0.5; done; [ $RANK = 0 ] || sleep 3' || diag "$(cat train.log)"
sleep 9
run dtctl logs alone
run dtctl fetch alone
run dtctl report alone
file=$out
page "$file"
spread=$(python3 -c 'import json, sys
times = [json.loads(line)["time_ms"] for line in open(sys.argv[1])]
print(len(times), max(times) - min(times))' "$(echo $runs/alone-*)/metrics.jsonl")
ok "values have the times of their lines, not of the fetch ($spread)" \
    test "${spread%% *}" = 24 -a "${spread##* }" -ge 1500 -a "${spread##* }" -le 5000
share=$(grep -o 'All ranks ran in [0-9]*' "$file" | grep -o '[0-9]*$')
ok "the time until the fetch counts for nothing, and neither does a rank alone ($share %)" \
    test "$share" -ge 25 -a "$share" -le 60

# ---- several runs
train other --nodes 1 --nproc-per-node 1 -- sh work.sh 0.1 || diag "$(cat train.log)"
run dtctl report good other
file=$(echo $runs/good-*/compared.html)
is "$status:$out" "0:$file" 'several runs have one page'
page "$file"
like "$(grep -o '<h2>[^<]*' "$file" | head -n 2 | tr '\n' ' ')" '<h2>What differs <h2>Runs' \
    'the table of differences comes first'
has "$file" '<tr><td>task</td><td>good</td><td>other</td></tr>' 'a setting that differs'
unlike "$(sed '/<h2>Runs/,$d' "$file")" 'train.max_restarts' 'equal settings are left out'
has "$file" '<tr><td>loss last</td>' 'figures of metrics'
is "$(grep -o '<title>[^<]*</title></poly' "$file" | sort | uniq -c | tr -d ' \n')" \
    '2<title>run1</title></poly2<title>run2</title></poly' 'each plot has a curve for each run'

# ---- errors
run dtctl report nothing
like "$status:$out" '^[1-9]:$' 'a run that does not exist is refused'
run dtctl report good good
like "$status:$err" "2:.*is named twice" 'a run is named once'
run dtctl report good -o missing/x.html
like "$status:$err" "1:.*cannot write the report: .*missing" 'a missing folder is named'
mkfifo pipe
for target in "$WORK" pipe; do
    run dtctl report good -o "$target"
    like "$status:$err" "^2:.*cannot write the report: .*is no file" "'$target' is not replaced"
done
cp dtctl.toml kept.toml
run dtctl report good -o dtctl.toml
like "$status:$err" "^2:.*dtctl.toml' is there already, and is no report" \
    'another file is not replaced'
ok '  and stays as it was' cmp dtctl.toml kept.toml
ln -s "$PWD/kept.toml" planted && mv planted "$(echo $runs/other-*)/report.html"
run dtctl report other
ok 'a link in the place of the page is replaced' cmp dtctl.toml kept.toml
rm $runs/other-*/report.html
run dtctl report other -o -
is "$status:$(head -c 15 <<<"$out"):$(tail -n 1 <<<"$out")" '0:<!DOCTYPE html>:</body></html>' \
    'a page can go to standard output'
run dtctl --dry-run report other
like "$status:$out:$(find $runs/other-* -name report.html)" '^0:.*report.html would be written:$' \
    '--dry-run writes nothing, and says so'
rm $runs/other-*/{events.jsonl,metrics.jsonl,summary.json}
run dtctl report other
like "$status:$err" "1:.*nothing of run 'other-.*dtctl logs -f" 'a run without files is named'

# ---- many values
good=$(echo $runs/good-*)
made=$(sed -n 's/^created_ms = //p' "$good/run.toml") # values of its first second
awk -v made="$made" 'BEGIN { for (i = 0; i < 1000000; i++)
    printf "{\"time_ms\":%.0f,\"node\":\"node0\",\"rank\":%d,\"name\":\"loss\",\"value\":%g}\n",
        made + i / 1000, i % 64, i == 500000 ? 1000 : 1 + i % 9 }' >"$good/metrics.jsonl"
began=$EPOCHREALTIME
run dtctl --json report good
diag "a million values of 64 ranks: $(awk -v a="$began" -v b="$EPOCHREALTIME" \
    'BEGIN { printf "%.2f", b - a }') s, $out"
like "$out" '"points":1000000,"problems":\[\]' 'a million values are read, and no line is bad'
page "$good/report.html"
has "$good/report.html" '<title>rank 63</title>' 'each of 64 ranks has its curve'
ok 'the spike of one value is there' grep -qE '[ "]3[01][0-9]{2},0 ' "$good/report.html"
done_testing
