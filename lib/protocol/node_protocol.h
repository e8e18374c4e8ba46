// SPDX-License-Identifier: Apache-2.0
// The protocol between dtctl and a node's dtrun over a channel (SSH exec or a local pipe):
//
//     dtrun --node VERB --root DIR [--run RUN] …
//
// There is no version: dtctl installs the dtrun that it carries, by hash (xfer/agent_bootstrap.h).
// DIR is the node's root (~/.dtctl…); RUN is the run's id. Exit status 0: done; otherwise the last
// line of standard output is {"event":"error","code":"<err_name>","text":"…"} (see err.h).
// "Record" below: u32 little-endian length, then that many bytes (at most NODE_RECORD_BYTES_MAX).
//
// start     stdin: record with the job specification (job_spec.h), stdout (JSON lines):
//               {"event":"listening","port":N,"address":"…"}
//           stdin: record with the roster (job_spec.h: [[node]] rank, name, address, port), stdout:
//               {"event":"started","pid":N}
//           and end of file. The agent is then detached: own session, log in runs/RUN/agent.log. It
//           ends by itself if the roster does not come within NODE_ROSTER_WAIT_MS_MAX.
//           A run that exists already on this node: error "exists".
//              --again: a run whose agent has vanished; the new agent joins the others, and never
//              begins a group of its own. A run that is over or has an agent: error "busy".
//              --join: a run that is active elsewhere and new here; its agent joins it likewise.
//
// setup     --run RUN
//           stdin: record with the job specification, then open as long as dtctl is there: its end
//           stops the script. stderr: the output of the script. stdout, at the end:
//               {"event":"ready","ran":true|false,"ms":N}   false: all of it had run before
//           Unpacks the archive of env.bundle, which a push has brought, unless that was done
//           here. Then runs the script of [setup] in the folder of the command, unless it has ended
//           well here for the same hash. Another run with that hash waits.
//
// follow    [--from JSON | --from -] [--only events|logs] [--once]
//           --from: an object {"<file>": offset, …}; files not named start at 0. "-": a record on
//           stdin holds it (for many files). stdout: records, each a JSON header line ending in \n,
//           then raw bytes to the end of the record:
//               {"file":"events.jsonl","offset":O,"bytes":N}\n<N raw bytes of that file at O>
//               {"beat":WALL_MS}\n                          every NODE_BEAT_MS without other output
//               {"end":"finished","exit_status":0}\n        always the last one; "end" is a state
//           File names are relative to the run's folder: events.jsonl, samples.jsonl, agent.log,
//           output/metrics.jsonl,
//           attempt_N/<local rank>/{stdout.log,stderr.log,error.json,log-times}.
//           Bytes of one file come in order without gaps; records never split a byte range twice,
//           so offset+bytes of the last record per file is the --from that loses and repeats
//           nothing. The .jsonl are cut at line ends only; logs at any byte. Events come before
//           what workers wrote after them. End of file without an "end" record: the connection
//           broke, run it again with --from.
//           --only events: the .jsonl alone. --only logs: the others.
//           --once: the files as they are, then the end record, whose state need not be final.
//
// status    [--run RUN [--sample]]   one JSON line per run, oldest first:
//               {"run":"…","name":"…","node":"…","node_rank":R,"nnodes":N,"state":"running",
//                "pid":P,"round":K,"restarts":C,"max_restarts":M,"agent_starts":A,"reason":"…",
//                "exit_status":S|null,
//                "created_ms":T,"updated_ms":T,"coordinator":true,
//                "members":[{"name":"…","node_rank":R,"state":"…"}],          coordinator only
//                "workers":[{"local_rank":L,"rank":R,"pid":P,"state":"running|exited",
//                            "status":S|null,"signal":"SIGKILL"|null}],
//                "owner":"…"|null,"fetched":true|false}
//           --sample: of an active run also "silent":true when its agent does not answer, else
//              "every_ms":M (0: the node is not sampled; absent: the agent is of an older version)
//              and "sample":{…}|null (node_sample.h). The node of rank 0 adds the ends of what the
//              rank has printed: "tail":{"stdout":"…","stderr":"…","metrics":"…"}.
//           status follows the shell's convention (128 + signal).
//
// stop      --run RUN [--grace-ms N] [--signal NAME]
//           Asks the agent to stop the run on all nodes. stdout: {"event":"stopping"} once taken,
//           {"event":"stopped"} when nothing of the run is left on this node. A run that has ended
//           already: {"event":"stopped"} at once.
//
// own       --owner ID --text TEXT
//           Notes that the cluster ID uses this root: owners/ID, with TEXT for people. A run's
//           folder has its cluster's ID in the file "owner". stdout: {"event":"owned"}
//
// fetched   --run RUN
//           Notes that the results of a run that is over are elsewhere: runs/RUN/fetched. Until
//           then they count as existing here alone. stdout: {"event":"fetched"}
//
// work-left --run RUN [--gather] [--kinds]
//           Files that the run made or changed in its working folder:
//               {"event":"work_left","files":N,"bytes":B,"names":["…"]}   the first few names
//           --gather: each of them is also found below runs/RUN/gathered/work/.
//           --kinds: also "kinds":{"logs":{"files":N,"bytes":B},"output":…,"model":…,"state":…},
//           what the run has of each kind of results on this node.
//
// snapshot  --run RUN [--known DIGEST] [--again | --closed]
//           Links the files of the run's state into runs/RUN/snapshot, as one whole generation: for
//           one second nothing has changed, and no process has one of them open for writing.
//           stdout:
//               {"event":"snapshot","new":true|false,"whole":true|false,"reason":"…"|null,
//                "digest":"…","files":N,"bytes":B}
//           new false: there is no state, or it is the one of DIGEST, and nothing was linked.
//           --again: looks at the snapshot instead, which is whole unless one of its files has
//           changed since DIGEST, and removes it.
//
//           --closed: links the finished files of the run's output and model into runs/RUN/closed,
//           and writes the list of all of them there (content/finished_files.h). "new" false: as
//           of DIGEST; "whole" is always true.
//
// clean     --run RUN | --all [--owner ID] [--fetched] [--force] [--discard]
//           Removes runs/RUN, or everything below root that dtctl put there, and root when that
//           left it empty. Without --owner all is the caller's; with it, runs of other clusters
//              stay, and while another cluster has its mark here, programs and content stay, too.
//              Active runs are an error "busy" unless --force, which kills them first. Runs with
//              results that were not fetched are an error "exists" unless --discard; --fetched:
//              stdin names further fetched runs, one per line. Either all is removed or nothing.
//              stdout:
//               {"event":"cleaned","removed_bytes":N,
//                "others":["TEXT of a cluster that still uses the root"],
//                   "left":["name of another file in the root"]}
//
// kept      one JSON line for each state of a run and for each folder of an input, or of an
//           environment, with files:
//               {"kind":"state"|"input"|"environment","name":"RUN"|"NAME-HASH"|"bundle-HASH",
//                "files":N,"bytes":B,"changed_ms":T}
//
// drop      --run RUN | --input NAME-HASH | --bundle bundle-HASH
//           Removes the state of a run that is over, or the folder of an input or environment while
//           no run is active here (else "busy"). An absent one is no error. stdout:
//           {"event":"dropped"}
//
// States of a run on a node (NODE_STATES): see below; "lost" is what status says of a run that was
// not over when its agent vanished.
//
// Events: one JSON object per line in events.jsonl, members in this order: "time_ms" (wall clock,
// since 1970), "time" (ISO 8601), "seq" (from 1, per file), "node" (the writer), "kind", then what
// the table names. Values are numbers where a number is meant. The coordinator's file also has what
// it learns from others, with "peer" naming the node it is about.
#ifndef PROTOCOL_NODE_PROTOCOL_H
#define PROTOCOL_NODE_PROTOCOL_H

enum {
    NODE_RECORD_BYTES_MAX = 4 << 20,
    NODE_BEAT_MS = 5000,
    NODE_ROSTER_WAIT_MS_MAX = 300 * 1000,
};

// code, name, function (node_…, in lib/node), arguments besides --root, meaning
#define NODE_VERBS(X)                                                                              \
    X(NODE_VERB_HELLO, "hello", hello, "[--install PATH --sha256 HEX] [--stay]",                   \
      "prints facts of the node and of this program, which it installs; --stay: more verbs "       \
      "follow on standard input")                                                                  \
    X(NODE_VERB_PUSH, "push", push, "", "receives files")                                          \
    X(NODE_VERB_FETCH, "fetch", fetch, "", "sends files")                                          \
    X(NODE_VERB_PROBE, "probe", probe,                                                             \
      "--listen ADDRESS --name NAME | --connect [--timeout-ms N]",                                 \
      "finds out whether nodes reach each other")                                                  \
    X(NODE_VERB_START, "start", start, "[--again | --join]",                                       \
      "reads job and roster, and starts the agent of a run")                                       \
    X(NODE_VERB_SETUP, "setup", setup, "--run RUN",                                                \
      "prepares the node for a run, once for the same content")                                    \
    X(NODE_VERB_FOLLOW, "follow", follow, "--run RUN [--from JSON] [--only events|logs] [--once]", \
      "sends the files of a run as they grow")                                                     \
    X(NODE_VERB_STATUS, "status", status, "[--run RUN [--sample]]", "lists the runs of the node")  \
    X(NODE_VERB_STOP, "stop", stop, "--run RUN [--grace-ms N] [--signal NAME]",                    \
      "stops a run on all nodes")                                                                  \
    X(NODE_VERB_OWN, "own", own, "--owner ID --text TEXT",                                         \
      "notes that a cluster uses this folder")                                                     \
    X(NODE_VERB_FETCHED, "fetched", fetched, "--run RUN",                                          \
      "notes that the results of a run have been fetched")                                         \
    X(NODE_VERB_WORK_LEFT, "work-left", work_left, "--run RUN [--gather] [--kinds]",               \
      "counts the results of a run that are still on the node")                                    \
    X(NODE_VERB_SNAPSHOT, "snapshot", snapshot, "--run RUN [--known DIGEST] [--again | --closed]", \
      "links whole generations of a state, or finished outputs, for a fetch")                      \
    X(NODE_VERB_CLEAN, "clean", clean,                                                             \
      "--run RUN | --all [--owner ID] [--fetched] [--force] [--discard]",                          \
      "removes a run, or all of a cluster")                                                        \
    X(NODE_VERB_PRUNE, "prune", prune, "--older-than-ms N [--dry-run]",                            \
      "removes content that has not been used for long")                                           \
    X(NODE_VERB_KEPT, "kept", kept, "", "lists states, inputs and environments on the node")       \
    X(NODE_VERB_DROP, "drop", drop, "--run RUN | --input NAME-HASH | --bundle bundle-HASH",        \
      "removes one of them")

enum node_verb_code {
#define X(code, name, function, arguments, text) code,
    NODE_VERBS(X)
#undef X
};

// state, final?, process exit status it stands for (-1: not over), meaning
#define NODE_STATES(X)                                                                             \
    X(NODE_STARTING, "starting", 0, -1, "the agent runs and has not joined yet")                   \
    X(NODE_JOINING, "joining", 0, -1, "waiting for the other nodes, or a spare")                   \
    X(NODE_RUNNING, "running", 0, -1, "workers are running")                                       \
    X(NODE_WAITING, "waiting", 0, -1, "its workers are done, those of other nodes are not")        \
    X(NODE_STOPPING, "stopping", 0, -1, "workers are being stopped")                               \
    X(NODE_FINISHED, "finished", 1, 0, "every worker of every node ended with 0")                  \
    X(NODE_FAILED, "failed", 1, 1, "the run failed")                                               \
    X(NODE_STOPPED, "stopped", 1, 1, "stopped on request")                                         \
    X(NODE_LOST, "lost", 1, 4, "the agent vanished without a final state")

enum node_state {
#define X(code, name, final, status, text) code,
    NODE_STATES(X)
#undef X
};

// kind, written by ("each" agent or the "coordinator"), members, meaning
#define NODE_EVENTS(X)                                                                             \
    X(EVENT_LISTENING, "listening", "each", "address port", "the agent is up")                     \
    X(EVENT_SAGEMAKER, "sagemaker", "each", "tree reason",                                         \
      "compat.sagemaker: /opt/ml is mounted, linked, or named by variables only; why no better")   \
    X(EVENT_STREAM, "stream", "each", "what input ms bytes left_ms text",                          \
      "streamed inputs: first (a rank reads), whole (an input is on the node), failed (an object " \
      "cannot be read), ends (the signed addresses end soon), renewed (they have new ones), over " \
      "(they have not), restarted (the server was killed), lost (nothing serves them); ms since "  \
      "they are served, left_ms until the addresses end")                                          \
    X(EVENT_JOINED, "joined", "each", "coordinator", "the coordinator has accepted this node")     \
    X(EVENT_PRESENT, "node-joined", "coordinator", "peer address present expected",                \
      "a node has joined")                                                                         \
    X(EVENT_WAITING, "waiting", "each", "present expected missing reason",                         \
      "still waiting for nodes; every few seconds")                                                \
    X(EVENT_ROUND, "round", "each",                                                                \
      "round restarts group_rank nodes nproc rank world_size master_addr master_port reason",      \
      "ranks are assigned; rank is this node's first")                                             \
    X(EVENT_STARTED, "workers-started", "each", "round attempt pids ms",                           \
      "every local worker runs; ms since the round was known")                                     \
    X(EVENT_EXITED, "worker-exited", "each",                                                       \
      "round rank local_rank pid status signal ms reason log",                                     \
      "a worker ended; status by the shell's convention, ms it ran, reason why it was stopped")    \
    X(EVENT_TIMER, "timer-expired", "each", "round local_rank pid scope signal",                   \
      "a worker's timer was not released in time; it got the signal (null: none)")                 \
    X(EVENT_STATE_COPIED, "state-copied", "each", "peer number bytes",                             \
      "another node has a copy of this node's state; bytes that were sent")                        \
    X(EVENT_STATE_RESTORED, "state-restored", "each", "peer number bytes of",                      \
      "this node has its state back from a copy; of: the node whose state it was")                 \
    X(EVENT_INPUT_DEALT, "input-dealt", "each", "round input files bytes",                         \
      "this node has its share of an input for the round; what came from other nodes")             \
    X(EVENT_INPUT_LACKS, "input-lacking", "each", "round input files group_rank nodes",            \
      "no node has these files of this node's share; the dtctl that began the run may send them")  \
    X(EVENT_INPUT_KEPT, "input-kept", "each", "round input files bytes",                           \
      "this node has the copies of other shares that it is to keep; what came from other nodes")   \
    X(EVENT_DONE, "node-done", "coordinator", "peer round", "all workers of a node ended with 0")  \
    X(EVENT_FAILURE, "failure", "coordinator",                                                     \
      "peer round rank local_rank pid status signal failed_ms message tail evidence root",         \
      "a worker failed; root: the first failure, which every node repeats when the run failed")    \
    X(EVENT_RESTART, "restart", "coordinator", "round restarts max_restarts reason",               \
      "the group is stopped to start again; counted only when restarts grows")                     \
    X(EVENT_STOPPING, "stopping", "each", "round reason signal grace_ms",                          \
      "local workers are being stopped")                                                           \
    X(EVENT_STOPPED, "workers-stopped", "each", "round ms orphans",                                \
      "no process of the round is left; orphans: killed strays")                                   \
    X(EVENT_NOTICE, "notice", "each", "peer reason left_ms signal",                                \
      "preemption of a node (reason: spot-terminate, lease, …); workers got the signal")           \
    X(EVENT_NODE_LOST, "node-lost", "coordinator", "peer silent_ms reason",                        \
      "a node's agent died or was silent too long")                                                \
    X(EVENT_NODE_LEFT, "node-left", "coordinator", "peer reason", "a node left on its own")        \
    X(EVENT_LEADER_LOST, "coordinator-lost", "each", "peer silent_ms reason",                      \
      "the coordinator died or was silent too long")                                               \
    X(EVENT_LEADER, "coordinator", "each", "peer reason", "another node coordinates now")          \
    X(EVENT_FINISHED, "finished", "each", "exit_status rounds restarts ms", "the run succeeded")   \
    X(EVENT_FAILED, "failed", "each", "exit_status rounds restarts ms reason",                     \
      "the run failed; reason is one line: root cause first")                                      \
    X(EVENT_ENDED, "stopped", "each", "exit_status rounds restarts ms reason",                     \
      "the run was stopped on request")

enum node_event {
#define X(code, name, writer, members, text) code,
    NODE_EVENTS(X)
#undef X
        NODE_EVENT_COUNT
};

const char *node_verb_name(enum node_verb_code verb);
const char *node_state_name(enum node_state s);
int node_state_is_final(enum node_state s);
int node_state_exit_status(enum node_state s);
const char *node_event_name(enum node_event k);

#endif
