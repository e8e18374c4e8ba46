# SPDX-License-Identifier: Apache-2.0
"""Namespaces of a benchmark's own: no network but loopback, and no process survives it."""
import os
import subprocess
import sys


def enter():
    """Starts the program anew in them, and returns there. It needs root."""
    if "--inside" in sys.argv:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return
    os.execvp("unshare", ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child",
                          "--mount-proc", "--propagation", "private", sys.executable,
                          os.path.abspath(sys.argv[0]), "--inside"])
