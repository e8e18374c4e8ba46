// SPDX-License-Identifier: Apache-2.0
// The node's side of the reachability check, linked into dtrun:
//
//     dtrun --node probe --listen ADDRESS --name NAME
//         listens on a free port of ADDRESS, prints {"event":"listening","port":N}, greets whoever
//         connects with NAME and a newline, and ends when standard input ends, or after
//         PROBE_LISTEN_MS_MAX.
//     dtrun --node probe --connect [--timeout-ms N]
//         reads lines `name address port` from standard input to its end, connects to all of them
//         at once, prints a line per peer {"peer":"…","ok":true,"us":N} or
//         {"peer":"…","ok":false,"why":"refused"}.
//
// Free ports are what agents, stores and collectives use, so one free port stands for them.
#ifndef NODE_NODE_PROBE_H
#define NODE_NODE_PROBE_H

enum {
    PROBE_LISTEN_MS_MAX = 60 * 1000,
    PROBE_CONNECT_MS_DEFAULT = 3000,
    PROBE_PEERS_MAX = 4096,
    PROBE_INPUT_BYTES_MAX = 1 << 20,
};

// argv[0] is the verb. Returns the exit status.
int probe_node(int argc, char **argv);

#endif
