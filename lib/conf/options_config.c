// SPDX-License-Identifier: Apache-2.0
// Flags of every command, and the tables of dtctl.toml that are not about one run.
#include "base/bucket_name.h"
#include "base/hostlist.h"
#include "conf/config.h"
#include "conf/result_kinds.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

#define AT(field)      .offset = offsetof(struct config, field)
#define AT_HOST(field) .offset = offsetof(struct config_host, field)

enum { VALUE_BYTES_MAX = 65536, ROOT_BYTES_MAX = 1024 };

#define WORD(id, word, object) word,
static const char *const providers[] = {CONFIG_PROVIDERS(WORD) NULL};
#undef WORD
const char *const config_archive_words[] = {"none", "tar.zst", NULL};
const char *const config_merge_words[] = {"auto", "by-node", "rank0", NULL};
static const char *const fanouts[] = {"auto", "off", NULL};
static const char *const keeps[] = {"run", "task", NULL};

// ---- checks ----------------------------------------------------------------------------------
static const char *const ranks_own[] = {
    "RANK",        "LOCAL_RANK",  "GROUP_RANK",       "ROLE_RANK",       "WORLD_SIZE",
    "MASTER_ADDR", "MASTER_PORT", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE", "GROUP_WORLD_SIZE"};

static int check_variable(const char *name, struct err *e) {
    size_t len = strlen(name);
    bool fine = len && !isdigit((unsigned char)name[0]);
    for (size_t i = 0; i < len; i++)
        fine = fine && (isalnum((unsigned char)name[i]) || name[i] == '_');
    if (!fine)
        return err_set(e, ERR_CONFIG,
                       "'%.100s' is not a valid name of a variable: use letters, digits and '_', "
                       "and no digit first",
                       name);
    for (size_t i = 0; i < sizeof ranks_own / sizeof ranks_own[0]; i++)
        if (strcmp(name, ranks_own[i]) == 0)
            return err_set(e, ERR_CONFIG, "'%s' is different for every rank, and set by the agent",
                           name);
    return 0;
}

static int check_value(const char *value, struct err *e) {
    if (strlen(value) <= VALUE_BYTES_MAX)
        return 0;
    return err_set(e, ERR_CONFIG, "the value has %zu bytes; the maximum is %d", strlen(value),
                   VALUE_BYTES_MAX);
}

// The brackets of each set: their form and number of names. "[" first is an address of IPv6.
static int check_brackets(const char *text, struct err *e) {
    enum { NODES_MAX = 4096 }; // as in lib/cluster
    struct arena a = {0};
    struct hostlist list;
    const char *why = NULL;
    for (const char *p = text, *end; *p && !why; p = *end ? end + 1 : end) {
        end = hostlist_end(p);
        const char *at = memchr(p, '@', (size_t)(end - p)), *name = at ? at + 1 : p;
        const char *open = memchr(name, '[', (size_t)(end - name));
        const char *colon = memchr(name, ':', (size_t)(end - name));
        if (open && open > name)
            why = hostlist_parse(&a, name, colon ? colon : end, "", NODES_MAX, &list);
    }
    int result = why ? err_set(e, ERR_CONFIG, "'%.100s': %s", text, why) : 0;
    arena_fini(&a); // why may lie in it
    return result;
}

static int check_host(const char *text, struct err *e) {
    const char *at = strrchr(text, '@');
    const char *address = at ? at + 1 : text;
    if (!*address || at == text || strpbrk(text, " \t\r\n;|&$`'\"\\") || text[0] == '-' ||
        address[0] == '-')
        return err_set(e, ERR_CONFIG, "'%.100s' is not [USER@]ADDRESS[:PORT]", text);
    return check_brackets(text, e);
}

static int check_s3(const char *text, struct err *e) {
    if (!*text || (bucket_name_len(text) && !strpbrk(text, "?# \t\r\n")))
        return 0;
    return err_set(e, ERR_CONFIG,
                   "'%.200s' is not s3://BUCKET/PREFIX (a bucket has " BUCKET_NAME_RULE ")", text);
}

static int check_every(const char *text, struct err *e) {
    int64_t ms = 0;
    struct err why;
    if (strcmp(text, "end") == 0)
        return 0;
    if (str_parse_duration_ms(text, &ms, &why) < 0)
        return err_set(e, ERR_CONFIG, "'%.100s' is neither a duration such as 60s nor 'end'", text);
    return ms >= CONFIG_OUTPUT_EVERY_MS_MIN && ms <= CONFIG_OUTPUT_EVERY_MS_MAX
               ? 0
               : err_set(e, ERR_CONFIG, "'%.100s' is not between 1s and 24h", text);
}

int64_t config_output_every_ms(const struct config *c) {
    int64_t ms = 0;
    struct err ignored;
    bool end = strcmp(c->output_every, "end") == 0;
    return end || str_parse_duration_ms(c->output_every, &ms, &ignored) < 0 ? 0 : ms;
}

static int check_interval(const char *text, struct err *e) {
    int64_t ms = 0;
    if (str_parse_duration_ms(text, &ms, e) < 0)
        return -1;
    return ms == 0 || (ms >= CONFIG_MONITOR_MS_MIN && ms <= CONFIG_MONITOR_MS_MAX)
               ? 0
               : err_set(e, ERR_CONFIG, "'%.100s' is neither 0 nor between 500ms and 1h", text);
}

int64_t config_monitor_ms(const struct config *c) {
    int64_t ms = 0;
    struct err ignored;
    return str_parse_duration_ms(c->monitor_interval, &ms, &ignored) < 0 ? 0 : ms;
}

static int check_root(const char *text, struct err *e) {
    const char *below = str_starts(text, "~/") ? text + 2 : text[0] == '/' ? text + 1 : "";
    if (!*below || strlen(text) > ROOT_BYTES_MAX || strstr(text, "/../") || str_ends(text, "/..") ||
        str_starts(below, "../") || strcmp(below, "..") == 0)
        return err_set(e, ERR_CONFIG,
                       "'%.100s' is not a folder of the nodes: give an absolute path or one that "
                       "starts with ~/, without '..', of at most %d bytes",
                       text, ROOT_BYTES_MAX);
    return 0;
}

// ---- records ---------------------------------------------------------------------------------
static const struct option_row host_rows[] = {
    {.key = "address",
     .type = OPTION_STRING,
     .marks = OPTION_REQUIRED,
     AT_HOST(address),
     .check = check_host,
     .help = "Host name or address."},
    {.key = "name",
     .type = OPTION_STRING,
     AT_HOST(name),
     .check = option_plain_name,
     .help = "Name of the node; empty makes one from the address."},
    {.key = "user", .type = OPTION_STRING, AT_HOST(user), .help = "Login; empty: ssh.user."},
    {.key = "port",
     .type = OPTION_INT,
     AT_HOST(port),
     .text = "0",
     .min = 0,
     .max = 65535,
     .help = "SSH port; 0: ssh.port."},
    {.key = "host_key",
     .type = OPTION_STRING,
     AT_HOST(host_key),
     .arg = "KEY",
     .help = "Required public host key (\"ssh-ed25519 AAAA…\") or fingerprint (\"SHA256:…\"); "
             "empty: known_hosts decides."},
};

static const struct option_record host_record = {
    .size = sizeof(struct config_host),
    .rows = host_rows,
    .count = sizeof host_rows / sizeof host_rows[0],
    .place_offset = offsetof(struct config_host, place),
};

// Commands that talk to nodes.
#define CONNECTING "plan up status train run exec ssh push fetch logs ps stop down gc bench doctor"

static const struct option_row rows[] = {
    // ---- flags of every command
    {.flag = "config",
     .letter = 'f',
     .type = OPTION_PATH,
     AT(file),
     .text = "dtctl.toml",
     .arg = "FILE",
     .help = "Configuration file."},
    {.key = "cluster.name",
     .flag = "cluster",
     .letter = 'c',
     .env = "DTCTL_CLUSTER",
     .type = OPTION_STRING,
     AT(cluster.name),
     .text = "default",
     .arg = "CLUSTER",
     .check = option_plain_name,
     .help = "Name of the cluster; its state is in .dtctl/CLUSTER."},
    {.flag = "json",
     .type = OPTION_BOOL,
     AT(json),
     .text = "false",
     .help = "Print results and events as JSON."},
    {.flag = "yes",
     .letter = 'y',
     .type = OPTION_BOOL,
     AT(yes),
     .text = "false",
     .help = "Do not ask."},
    {.flag = "verbose",
     .letter = 'v',
     .type = OPTION_BOOL,
     AT(verbose),
     .text = "false",
     .help = "Print more details."},
    {.flag = "quiet",
     .letter = 'q',
     .type = OPTION_BOOL,
     AT(quiet),
     .text = "false",
     .help = "Print only errors and results."},
    {.flag = "dry-run",
     .type = OPTION_BOOL,
     AT(dry_run),
     .text = "false",
     .help = "Print the actions, and do nothing."},
    OPTION_ROW_HELP(AT(help)),
    {.flag = "set",
     .verbs = "train bench config",
     .type = OPTION_LIST,
     .marks = OPTION_ASSIGN | OPTION_NO_ENV,
     AT(set_list),
     .arg = "KEY=VALUE",
     .help = "Set any key of the file, such as train.epochs=3; may be repeated."},
    // ---- [cluster]
    {.key = "cluster.provider",
     .flag = "provider",
     .verbs = "init plan up",
     .marks = OPTION_KEEP,
     .type = OPTION_CHOICE,
     AT(cluster.provider),
     .text = "local",
     .choices = providers,
     .help = "Source of the nodes: local, folders and loopback addresses of this computer; hosts, "
             "the machines in [hosts]; aws, instances that `up` makes."},
    {.key = "cluster.nodes",
     .flag = "nodes",
     .verbs = "init plan up",
     .marks = OPTION_KEEP,
     .type = OPTION_INT,
     AT(cluster.nodes),
     .text = "2",
     .min = 1,
     .max = 10000,
     .help = "Number of nodes to make; provider hosts uses all listed machines."},
    // ---- [hosts]
    {.key = "hosts.list",
     .flag = "host",
     .verbs = "init plan up",
     .marks = OPTION_KEEP | OPTION_BRACKETS,
     .type = OPTION_LIST,
     AT(hosts.list),
     .arg = "[USER@]ADDRESS[:PORT]",
     .check = check_host,
     .help = "Machines of provider hosts; node sets such as gpu[01-04].lab are expanded; the "
             "flag may be repeated."},
    {.key = "hosts.host",
     .type = OPTION_RECORDS,
     .marks = OPTION_NO_ENV,
     AT(hosts.host),
     .record = &host_record,
     .help = "Settings of one machine; a machine that is not in hosts.list is added."},
    {.key = "hosts.root",
     .type = OPTION_STRING,
     AT(hosts.root),
     .text = "~/.dtctl",
     .arg = "DIR",
     .check = check_root,
     .help = "Folder on the machines in which each node has a folder nodes/NAME; nodes may share "
             "it. Useful to have a fast local disk instead of a home folder on a file server."},
    // ---- [ssh]
    {.key = "ssh.user",
     .type = OPTION_STRING,
     AT(ssh.user),
     .arg = "USER",
     .help = "Login name; empty: from the ssh configuration, else this user's name."},
    {.key = "ssh.port",
     .type = OPTION_INT,
     AT(ssh.port),
     .text = "0",
     .min = 0,
     .max = 65535,
     .help = "SSH port; 0: from the ssh configuration, else 22."},
    {.key = "ssh.identity_files",
     .type = OPTION_PATHS,
     AT(ssh.identity_files),
     .arg = "FILE",
     .help = "Private keys to try before those of the ssh configuration, or of ~/.ssh."},
    {.key = "ssh.config",
     .type = OPTION_PATH,
     AT(ssh.config_file),
     .text = "~/.ssh/config",
     .arg = "FILE",
     .help = "SSH configuration file; empty: none."},
    {.key = "ssh.accept_host_keys",
     .flag = "accept-host-keys",
     .verbs = CONNECTING,
     .type = OPTION_BOOL,
     AT(ssh.accept_host_keys),
     .text = "false",
     .help = "Accept and remember unknown host keys; a changed key is always refused."},
    {.key = "ssh.proxy_jump",
     .type = OPTION_STRING,
     AT(ssh.proxy_jump),
     .arg = "[USER@]HOST[:PORT]",
     .check = check_host,
     .help = "Jump host; empty: from the ssh configuration."},
    {.key = "ssh.connect_timeout",
     .type = OPTION_DURATION,
     AT(ssh.connect_timeout_ms),
     .text = "10s",
     .min = 100,
     .max = 3600000,
     .arg = "TIME",
     .help = "Time limit to connect to a node and log in."},
    {.key = "ssh.keepalive",
     .type = OPTION_DURATION,
     AT(ssh.keepalive_ms),
     .text = "15s",
     .min = 1000,
     .max = 3600000,
     .arg = "TIME",
     .help = "Interval of keepalive messages on idle connections."},
    {.key = "cluster.fanout",
     .type = OPTION_CHOICE,
     AT(cluster.fanout),
     .text = "auto",
     .choices = fanouts,
     .help = "auto: nodes that lack the same files pass them on from one to the next, so that they "
             "leave this computer once; off: each node gets all from this computer."},
    // ---- inputs and outputs
    {.key = "inputs",
     .flag = "input",
     .verbs = "train",
     .type = OPTION_RECORDS,
     AT(inputs),
     .arg = "NAME=SOURCE[:replicated|:sharded]",
     .record = &config_input_record,
     .check_name = config_input_check_name,
     .help = "Data to send to the nodes; workers find its path in DTCTL_INPUT_<NAME>; may be "
             "repeated."},
    {.key = "outputs.dir",
     .flag = "output",
     .verbs = "train",
     .type = OPTION_PATH,
     AT(output_dir),
     .arg = "DIR",
     .help = "Folder for fetched outputs; empty: output/ in the run's folder."},
    {.key = "outputs.s3",
     .type = OPTION_STRING,
     AT(output_s3),
     .arg = "s3://BUCKET/PREFIX",
     .check = check_s3,
     .help = "Where results also go once they are here: below TASK/runs/RUN/ as output/, model/, "
             "state/ and logs/. With outputs.every finished files go to live/ there at that "
             "interval. The bucket is checked before a run starts; empty: nowhere."},
    {.key = "outputs.fetch",
     .flag = "fetch",
     .verbs = "train run",
     .type = OPTION_LIST,
     AT(output_fetch),
     .text = "logs,output,model,state",
     .arg = "KINDS",
     .check = result_kinds_check,
     .help = "Kinds of results that come to this computer by themselves, such as logs,model; the "
             "others stay on the nodes, where dtctl fetch gets them. []: none."},
    {.key = "outputs.every",
     .type = OPTION_STRING,
     AT(output_every),
     .text = "end",
     .arg = "TIME|end",
     .check = check_every,
     .help =
         "Interval at which the dtctl that follows a run fetches the files of output and model "
         "that the nodes have finished, to live/NODE of the run's folder; they replace those of a "
         "node that is lost. end: all come when the run is over."},
    {.key = "outputs.merge",
     .flag = "merge",
     .verbs = "train",
     .type = OPTION_CHOICE,
     AT(output_merge),
     .text = "auto",
     .choices = config_merge_words,
     .help = "Layout of a command's outputs: auto merges the nodes' files into one folder, where a "
             "file that differs between nodes becomes NODE/FILE; by-node keeps one folder per "
             "node; rank0 takes output and model only from the node of rank 0, and those of other "
             "nodes are not fetched at all. State comes from every node, in state/NODE."},
    {.key = "outputs.archive",
     .verbs = "train",
     .type = OPTION_CHOICE,
     AT(output_archive),
     .text = "none",
     .choices = config_archive_words,
     .help = "tar.zst: the results folder also gets its output as output.tar.zst and its model as "
             "model.tar.zst. Equal files give equal archives."},
    {.key = "outputs.work",
     .type = OPTION_BOOL,
     AT(output_work),
     .text = "false",
     .help = "Also fetch files that a command made in its working folder, to work/; otherwise they "
             "are only named, and dtctl fetch RUN --work fetches them."},
    {.key = "state.keep",
     .type = OPTION_CHOICE,
     AT(state_keep),
     .text = "run",
     .choices = keeps,
     .help =
         "Initial state of a run: run, the state of the newest unfinished run of that name, if "
         "there is one; task, the state of the newest run of that name, also of a finished one."},
    {.key = "state.every",
     .type = OPTION_DURATION,
     AT(state_every_ms),
     .text = "0s",
     .min = 0,
     .max = 86400000,
     .arg = "TIME",
     .help = "Interval at which the dtctl that follows a run fetches the state of every node, as a "
             "whole; it replaces that of a node that is lost. 0: only at the end."},
    {.key = "state.replicas",
     .type = OPTION_INT,
     AT(state_replicas),
     .text = "1",
     .min = 0,
     .max = CONFIG_REPLICAS_MAX,
     .help = "Other nodes that hold a copy of a node's state, renewed every state.every by the "
             "nodes themselves; a node that comes back with an empty disk has its state again. "
             "Nothing is copied without state.every, or on one node; by the native trainer, whose "
             "nodes all have the whole state, only where the file or a flag sets it."},
    {.key = "env",
     .flag = "env",
     .verbs = "train bench",
     .type = OPTION_MAP,
     AT(env),
     .arg = "NAME=VALUE",
     .check_name = check_variable,
     .check = check_value,
     .help = "Variable of the workers' environment; may be repeated."},
    {.key = "hyperparameters",
     .flag = "hp",
     .verbs = "train",
     .type = OPTION_MAP,
     AT(hyperparameters),
     .arg = "NAME=VALUE",
     .check_name = option_plain_name,
     .check = check_value,
     .help = "Hyperparameter of a command: --NAME VALUE after its arguments, and SM_HP_<NAME> and "
             "SM_HPS in its environment, as on SageMaker; may be repeated."},
    {.key = "compat.sagemaker",
     .verbs = "train",
     .type = OPTION_BOOL,
     AT(compat_sagemaker),
     .text = "false",
     .help = "Run the command as in a training container of SageMaker: with the folder /opt/ml "
             "(its channels, configuration, model, output, checkpoints), the variables SM_* and "
             "SSM_*, and TF_CONFIG."},
    {.key = "monitor.interval",
     .type = OPTION_STRING,
     AT(monitor_interval),
     .text = "2s",
     .arg = "TIME",
     .check = check_interval,
     .help = "Interval at which the agents of a run sample processors, memory, network, disks and "
             "GPUs of their nodes, for dtctl top and samples.jsonl. 0: they do not."},
};

const struct option_table options_config = {"dtctl", rows, sizeof rows / sizeof rows[0]};
