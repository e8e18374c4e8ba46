# SPDX-License-Identifier: Apache-2.0
# uses.awk TEST.c…: "file:layer" for each layer, and "file:cmd/program" for each program, whose
# headers a test includes, by itself or through other files of tests/.
function scan(test, file,    line, quoted, n, part) {
    if (seen[test, file]++)
        return
    while ((getline line < file) > 0) {
        if (line !~ /^[ \t]*#[ \t]*include[ \t]*"/)
            continue
        split(line, quoted, "\"")
        n = split(quoted[2], part, "/")
        if (part[1] == "lib")
            part[1] = part[2]
        if (part[1] == "tests")
            scan(test, quoted[2])
        else if (part[1] == "cmd" && n > 2)
            print test ":cmd/" part[2]
        else if (n > 1)
            print test ":" part[1]
    }
    close(file)
}

BEGIN {
    for (i = 1; i < ARGC; i++)
        scan(ARGV[i], ARGV[i])
}
