# SPDX-License-Identifier: Apache-2.0
# uses.awk: from lines `FILE:#include "HEADER"` of all tests, `file:layer` for each layer, and
# `file:cmd/program` for each program, whose headers a file includes, by itself or through headers
# of tests/.
BEGIN { FS = "\"" }

{ file = substr($1, 1, index($1, ":") - 1) }

!(file in count) && file !~ /\.h$/ { files[++total] = file }

{ headers[file, ++count[file]] = $2 }

function scan(test, file,    i, n, part) {
    if (seen[test, file]++)
        return
    for (i = 1; i <= count[file]; i++) {
        n = split(headers[file, i], part, "/")
        if (part[1] == "lib")
            part[1] = part[2]
        if (part[1] == "tests")
            scan(test, headers[file, i])
        else if (part[1] == "cmd" && n > 2)
            used[test ":cmd/" part[2]]
        else if (n > 1)
            used[test ":" part[1]]
    }
}

END {
    for (i = 1; i <= total; i++)
        scan(files[i], files[i])
    for (line in used)
        print line
}
