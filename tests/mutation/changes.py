# SPDX-License-Identifier: Apache-2.0
"""Which operators, constants and bounds of a source can be changed, and to which others."""
import re

SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||",
         "||": "&&", "+": "-", "-": "+", "*": "/", "+=": "-=", "-=": "+=", "++": "--",
         "--": "++", "<<": ">>", ">>": "<<", "true": "false", "false": "true"}
# Comments, strings and preprocessor lines are taken whole and left alone.
TOKEN = re.compile(
    r'(?P<skip>//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    r"|^[ \t]*#(?:\\\n|[^\n])*)"
    r"|(?P<word>[A-Za-z_]\w*)|(?P<number>\d[\w.]*)"
    r"|(?P<operator>->|<<=|>>=|<<|>>|<=|>=|==|!=|&&|\|\||\+\+|--|\+=|-=|[-+*<>])"
    r"|(?P<other>[^\s])", re.M | re.S)
SAME_TIME_MIN = 5  # units
FACTOR_MIN = 1000


def places(text):
    """(begin, end, replacement) of every change; binary operators only, by what stands before."""
    found, before = [], ""
    for m in TOKEN.finditer(text):
        token, kind = m.group(), m.lastgroup
        if kind == "skip":
            continue
        behind_value = bool(re.match(r"[\w)\]]", before[-1:])) and before not in ("return", "case")
        if kind == "number" and text[m.start() - 1] == "-" and text[m.start() - 2] in " (":
            pass  # -1 says that there is none, and any other negative number does
        elif kind == "number" and re.fullmatch(r"\d+", token):
            # To callers that look for a negative number, 1 is as good as 0; 2 is as positive as 1.
            alone = before == "return" and text[m.end():m.end() + 1] == ";" or \
                before in ("?", ":") and beside_error(text, m.start(), m.end())
            sign = token == "1" and text[:m.start()].endswith("? -1 : ")
            # A thousandth more of milliseconds or bytes is the same for all purposes.
            factor = int(token) >= FACTOR_MIN and text[:m.start()].endswith(("* ", "/ "))
            found.append((m.start(), m.end(),
                          "-1" if (alone and token == "0") or sign else
                          "0" if alone and token == "1" else
                          "0%o" % (int(token, 8) + 1) if re.fullmatch("0[0-7]+", token) else
                          str(int(token) * 2 if factor else int(token) + 1)))
        elif token in ("true", "false"):
            found.append((m.start(), m.end(), SWAPS[token]))
        elif kind == "operator" and token in SWAPS:
            spaced = text[m.start() - 1] == " " and text[m.end()] == " "  # no pointer, no sign
            if token in ("++", "--") or (behind_value and spaced):
                found.append((m.start(), m.end(), SWAPS[token]))
        before = token
    return [p for p in found if not equivalent(text, *p)]


def beside_error(text, begin, end):
    """The value that a statement returns when it does not return an error."""
    first = max(text.rfind(c, 0, begin) for c in ";{}") + 1
    statement = text[first:text.find(";", end) + 1]
    return bool(re.match(r"\s*[:;]", text[end:]) and re.search(r"\breturn\b", statement) and
                re.search(r"[?:]\s*-1\b|\be\)|\berr_(set|wrap|errno)\(", statement))


def equivalent(text, begin, end, new):
    """Changes that no test of what a program does can notice."""
    first = text.rfind("\n", 0, begin) + 1
    head, tail = text[first:begin], text[end:(text.find("\n", end) + 1 or len(text) + 1) - 1]
    number = re.fullmatch(r"\d+", new)
    # One byte more in a buffer for text, one element more than is allocated already.
    if number and (re.search(r"\bchar \w+(\[\w+\])?\[[^]]*$", head) or
                   re.search(r"\b\w*(alloc|arena_new)\([^;]*[^+]\+ $", head) or
                   re.search(r"\barena_new\([^;()]*, $", head)):
        return True
    # An assertion that lets more pass: what it forbids does not happen.
    if re.search(r"\b(must|assert)\([^;]*$", head) and text[begin:end] in ("<", ">", "&&"):
        return True
    # The size of buffers for text alone.
    name = re.search(r"\b([A-Z][A-Z0-9_]+) = $", head)
    if number and name:
        uses = [line for line in text[:first].split("\n") + text[end:].split("\n")
                if re.search(r"\b%s\b" % name.group(1), line)]
        buffer = r"^\s*(?:static )?char [^()=;]*\[%s\][^()=]*;" % name.group(1)
        if uses and all(re.match(buffer, line) for line in uses):
            return True
    # Of two equal values either one is the smaller one, or the larger one.
    value = r"((?:sizeof )?[\w.>\[\]-]+)"
    words = re.match(r" %s \? (?:\(\w+\))?%s : (?:\(\w+\))?%s" % (value, value, value), tail)
    left = re.search(value + r" $", head)
    ordered = text[begin:end] in ("<", ">", "<=", ">=")
    if ordered and words and left and \
            {left.group(1), words.group(1)} == {words.group(2), words.group(3)}:
        return True
    words = re.match(r" (\S+)\)\n\s*(\S+) = (?:\(\w+\))?(\S+);", text[end:])
    if ordered and words and head.lstrip() == "if (%s " % words.group(2) and \
            words.group(1) == words.group(3):
        return True
    # Two values that differ.
    words = re.search(r"if \((\S+) != (\S+)\)\n\s*return (\S+) $", text[:begin])
    if ordered and words and words.group(1) == words.group(3) and \
            tail.startswith(" %s ? " % words.group(2)):
        return True
    # Programs keep descriptor 0 open.
    if number and re.search(r"\b\w*fd (<|>=) $", head):
        return True
    if text[begin:end] in ("<", ">=") and re.search(r"\bfd $|_fd $", head) and tail[:2] == " 0":
        return True
    # An error before it is set.
    if re.search(r"\bstruct err \w+ = \{$", head):
        return True
    # How long something may take, which is a little longer: 31 s for 30.
    limit = re.search(r"\b[A-Z][A-Z0-9_]*_(MS|S|US|NS|SECONDS)(_MAX|_MIN)? = (\d[\d* <]*)?$", head)
    return bool(number and limit and int(new) > SAME_TIME_MIN)
