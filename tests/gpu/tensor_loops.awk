# SPDX-License-Identifier: Apache-2.0
# From the output of nvdisasm for sm: sm, kernel, instructions and tensor instructions of each
# innermost loop that has some. NOPs do not count: for sm_120 ptxas puts one behind most products.
/^\.text\.[A-Za-z0-9_]+:/ {
    kernel = $1
    sub(/^\.text\./, "", kernel)
    sub(/:.*/, "", kernel)
    n = 0
    split("", at)
}
/^\.L_x_[0-9]+:/ { label = $1; sub(/:.*/, "", label); at[label] = n; next }
/\/\*[0-9a-f]+\*\// && /;/ && !/ NOP *;/ {
    n++
    tensor[n] = tensor[n - 1] + ($0 ~ /[ \t]HG?MMA\./)
    back[n] = 0
    if (match($0, /BRA[^`]*`\(\.L_x_[0-9]+\)/)) {
        target = substr($0, RSTART, RLENGTH); sub(/.*\(/, "", target); sub(/\).*/, "", target)
        if (!(target in at)) next
        from = at[target]; inner = 1
        for (i = from + 1; i < n; i++) if (back[i] && tensor[i] > tensor[from]) inner = 0
        if (tensor[n] > tensor[from]) {
            back[n] = 1
            if (inner) print sm, kernel, n - from, tensor[n] - tensor[from]
        }
    }
}
