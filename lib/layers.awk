# SPDX-License-Identifier: Apache-2.0
# layers.awk lib/README.md: the table of layers, one line each: its name, then the layers that it
# may include. With -v closure=1: then itself and every layer that is reached from it, which is what
# a program or test that uses it is linked with.
BEGIN { FS = "|" }

NF >= 5 && $2 !~ /layer|---/ {
    name = $2
    gsub(/ /, "", name)
    order[++count] = name
    row[name] = $3
}

function reach(name,    list, n, i) {
    if (seen[name]++)
        return
    line = line " " name
    n = split(row[name], list, " ")
    for (i = 1; i <= n; i++)
        reach(list[i])
}

END {
    for (k = 1; k <= count; k++) {
        line = order[k]
        if (closure) {
            split("", seen)
            reach(order[k])
        } else {
            n = split(row[order[k]], list, " ")
            for (i = 1; i <= n; i++)
                line = line " " list[i]
        }
        print line
    }
}
