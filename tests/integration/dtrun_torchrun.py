# SPDX-License-Identifier: Apache-2.0
"""torchrun for many calls at the price of one: to import PyTorch takes seconds of a processor.

    dtrun_torchrun.py serve SOCKET        imports PyTorch's launcher; prints "ready"; forks one per call
    dtrun_torchrun.py call SOCKET ARG…    runs it with this folder, environment and these streams
"""
import array
import ctypes
import json
import os
import signal
import socket
import sys
import traceback

HEAD_MAX = 1 << 20  # bytes of a call: arguments, folder, environment
PR_SET_PDEATHSIG = 1


def launch(run, call, streams):
    """In the child: what `python -m torch.distributed.run ARG…` does. Returns the exit status."""
    for i, stream in enumerate(streams):
        os.dup2(stream, i)
    os.chdir(call["folder"])
    os.environ.clear()
    os.environ.update(call["env"])
    sys.argv = [run.__file__] + call["args"]
    try:
        run.main(call["args"])
        return 0
    except SystemExit as e:
        return e.code if isinstance(e.code, int) else int(e.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def answer(run, peer, imported):
    """One call: its head and streams, the launcher in a child, and its status to the peer."""
    head, control, _, _ = peer.recvmsg(HEAD_MAX, socket.CMSG_SPACE(3 * 4))
    while not head.endswith(b"\n"):
        head += peer.recv(HEAD_MAX)
    streams = array.array("i", control[0][2])
    call = json.loads(head)
    call["env"] |= imported
    pid = os.fork()
    if pid == 0:
        peer.close()
        os._exit(launch(run, call, streams) & 255)
    for stream in streams:
        os.close(stream)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    peer.sendall(b"%d" % (status if status >= 0 else 128 - status))


def serve(path):
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # it ends with the test
    before = dict(os.environ)
    from torch.distributed import run

    imported = {k: v for k, v in os.environ.items() if before.get(k) != v}
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(8)
    print("ready", flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children that answer a call are not waited for
    while True:
        peer, _ = server.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            server.close()
            answer(run, peer, imported)
            os._exit(0)
        peer.close()


def call(path, args):
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(path)
        head = json.dumps({"args": args, "folder": os.getcwd(), "env": dict(os.environ)})
        streams = array.array("i", [0, 1, 2])
        head = head.encode() + b"\n"
        sent = peer.sendmsg([head], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
        peer.sendall(head[sent:])
        return int(peer.recv(16) or b"1")


if sys.argv[1] == "serve":
    serve(sys.argv[2])
else:
    sys.exit(call(sys.argv[2], sys.argv[3:]))
