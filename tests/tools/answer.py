#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""answer.py SECONDS [WORDS KEYS]... -- COMMAND...

Runs the command on a terminal of its own. Each time that WORDS have appeared in what it prints, KEYS
are typed there (a backslash sequence of Python stands for a control character); KEYS may also be
SIGTERM or another signal's name, which is sent to the command. Prints what the terminal showed and
ends as the command did (128 + the signal's number when one ended it; 124 when the time is up).
"""
import os
import pty
import select
import signal
import sys
import time

at = sys.argv.index("--")
seconds, steps, command = float(sys.argv[1]), sys.argv[2:at], sys.argv[at + 1 :]
pairs = list(zip(steps[::2], steps[1::2]))

pid, terminal = pty.fork()
if pid == 0:
    os.execvp(command[0], command)
deadline, seen, shown = time.monotonic() + seconds, b"", b""
while True:
    left = deadline - time.monotonic()
    if left <= 0 or not select.select([terminal], [], [], left)[0]:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        sys.stdout.buffer.write(shown + b"\n# the time is up\n")
        sys.exit(124)
    try:
        got = os.read(terminal, 65536)
    except OSError:  # the command has left the terminal
        got = b""
    if not got:
        break
    shown += got
    seen += got
    while pairs and pairs[0][0].encode() in seen:
        words, keys = pairs.pop(0)
        seen = seen.split(words.encode(), 1)[1]
        if keys.startswith("SIG"):
            os.kill(pid, signal.Signals[keys])
        else:
            os.write(terminal, keys.encode().decode("unicode_escape").encode("latin-1"))
sys.stdout.buffer.write(shown)
sys.stdout.flush()
_, status = os.waitpid(pid, 0)
code = os.waitstatus_to_exitcode(status)
sys.exit(128 - code if code < 0 else code)
