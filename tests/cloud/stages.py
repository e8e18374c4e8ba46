#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""stages.py: /usr/bin/cloud-init of a node. The first of the four stages of a boot imports cloud-init
and leaves a process that runs the others in copies of itself, since to import it takes a large part
of the time of a stage. Since 24.3 cloud-init does much the same. Where that process is not, as for
users who ask for the status, this is the command as it always was. Nothing collects garbage, which
is a fifth of the processor time otherwise."""

import gc
import json
import logging
import os
import signal
import socket
import sys

ADDRESS = "/run/lab-cloud-init"
MESSAGE_BYTES_MAX = 1 << 20


def run():
    """Runs the command of sys.argv: its exit status."""
    from cloudinit.cmd.main import main
    try:
        code = main()
    except SystemExit as end:
        code = end.code
    if isinstance(code, str):
        print(code, file=sys.stderr)
    return code if isinstance(code, int) else int(code is not None)


def send(link, status):
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    link.sendall(bytes([status & 255]))


def copy(link):
    """In a new process: the command that the other end of the link has sent."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    data, descriptors, _, _ = socket.recv_fds(link, MESSAGE_BYTES_MAX, 3)
    sys.argv, environment, folder = json.loads(data)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    status = 1
    try:
        status = run()
    finally:
        send(link, status)
        os._exit(status)


def serve():
    """Leaves a process that serves commands. It ends with the unit of the first stage."""
    import cloudinit.cmd.main
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(ADDRESS)
    os.chmod(ADDRESS, 0o600)
    listener.listen(8)
    if os.fork():
        listener.close()
        return
    os.setsid()
    nothing = os.open("/dev/null", os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        link, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            copy(link)
        link.close()


def ask():
    """Has the command run by the process that the first stage left: its exit status."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
        link.connect(ADDRESS)
        message = json.dumps([sys.argv, dict(os.environ), os.getcwd()]).encode()
        socket.send_fds(link, [message], [0, 1, 2])
        answer = link.recv(1)
        return answer[0] if answer else 1


gc.disable()
if sys.argv[1:] == ["init", "--local"]:
    serve()
    sys.exit(run())
try:
    status = ask()
except OSError:
    status = run()
sys.exit(status)
