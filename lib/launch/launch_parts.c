// SPDX-License-Identifier: Apache-2.0
// The small grammars inside torchrun's flags.
#include "launch/launch.h"
#include "sys/proc.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int launch_gpu_count(void) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (visible) {
        int count = 0;
        for (const char *p = visible; *p; p += strcspn(p, ","), p += *p == ',') {
            if (*p == '-' || *p == ',') // CUDA stops at the first invalid one
                break;
            count++;
        }
        return count;
    }
    int count = 0;
    DIR *d = opendir("/proc/driver/nvidia/gpus");
    for (struct dirent *entry; d && (entry = readdir(d));)
        count += entry->d_name[0] != '.';
    if (d)
        closedir(d);
    return count;
}

int launch_nproc(const char *text, int *out, struct err *e) {
    int64_t n;
    int gpus = launch_gpu_count();
    if (strcmp(text, "cpu") == 0 || (strcmp(text, "auto") == 0 && gpus == 0)) {
        n = proc_cpu_count();
    } else if (strcmp(text, "auto") == 0 || strcmp(text, "gpu") == 0) {
        n = gpus;
        if (gpus == 0)
            return err_set(e, ERR_USAGE, "--nproc-per-node gpu: this host has no CUDA device");
    } else if (str_parse_i64(text, 1, LAUNCH_NPROC_MAX, &n, e) < 0) {
        return err_set(e, ERR_USAGE,
                       "--nproc-per-node '%.40s' is neither a number from 1 to %d nor auto, cpu or "
                       "gpu",
                       text, LAUNCH_NPROC_MAX);
    }
    *out = (int)n;
    return 0;
}

static int bad_streams(const char *text, struct err *e) {
    return err_set(e, ERR_USAGE, "'%.100s' is neither 0, 1, 2 or 3 nor a list like 0:3,1:1", text);
}

int launch_streams(const char *text, int nproc, unsigned char *out, struct err *e) {
    memset(out, 0, (size_t)nproc);
    if (text[0] >= '0' && text[0] <= '3' && !text[1]) {
        memset(out, text[0] - '0', (size_t)nproc);
        return 0;
    }
    for (const char *p = text; *p;) {
        char *end;
        long rank = strtol(p, &end, 10);
        if (end == p || end[0] != ':' || end[1] < '0' || end[1] > '3' || (end[2] && end[2] != ','))
            return bad_streams(text, e);
        if (rank >= 0 && rank < nproc)
            out[rank] = (unsigned char)(end[1] - '0');
        p = end + 2 + (end[2] == ',');
    }
    return text[0] ? 0 : bad_streams(text, e);
}

int launch_ranks_filter(const char *text, int nproc, bool *on_console, struct err *e) {
    for (int i = 0; i < nproc; i++)
        on_console[i] = !text[0];
    for (const char *p = text; *p;) {
        char *end;
        long rank = strtol(p, &end, 10);
        if (end == p || (*end && *end != ','))
            return err_set(e, ERR_USAGE, "--local-ranks-filter '%.100s' is not a list of numbers",
                           text);
        if (rank >= 0 && rank < nproc)
            on_console[rank] = true;
        p = end + (*end == ',');
    }
    return 0;
}

const char *const *launch_filters(struct arena *a, const char *text) {
    size_t room = strlen(text) + 2, count = 0;
    const char **out = arena_new(a, const char *, room);
    struct strbuf word = {0};
    for (const char *p = text; *text; p++) {
        if (p[0] == ',' && p[1] == ',') { // a comma that is meant
            strbuf_addc(&word, ',');
            p++;
        } else if (p[0] && p[0] != ',') {
            strbuf_addc(&word, p[0]);
        } else {
            if (word.len > 0)
                out[count++] = arena_strdup(a, strbuf_cstr(&word));
            strbuf_clear(&word);
            if (!p[0])
                break;
        }
    }
    strbuf_fini(&word);
    return out;
}

int launch_signals(const char *text, sigset_t *out, struct err *e) {
    struct arena a = {0};
    char **names;
    size_t count = str_split(&a, text, ',', &names);
    int rc = 0;
    sigemptyset(out);
    for (size_t i = 0; i < count && rc == 0; i++) {
        int signal = names[i][0] ? proc_signal_parse(names[i], e) : 0;
        if (signal < 0)
            rc = err_wrap(e, "--signals-to-handle");
        else if (signal == SIGKILL || signal == SIGSTOP || signal == SIGCHLD)
            rc = err_set(e, ERR_USAGE, "--signals-to-handle: %s cannot be handled", names[i]);
        else if (signal > 0)
            sigaddset(out, signal);
    }
    arena_fini(&a);
    return rc;
}

int launch_notice_signal(const char *text, struct err *e) {
    if (strcmp(text, "none") == 0)
        return 0;
    int signal = proc_signal_parse(text, e);
    if (signal < 0)
        return err_wrap(e, "--notice-signal");
    if (signal == SIGKILL || signal == SIGSTOP)
        return err_set(e, ERR_USAGE, "--notice-signal: workers cannot act on %s", text);
    return signal;
}

const char *launch_conf(struct arena *a, const char *conf, const char *key) {
    char **entries;
    size_t count = str_split(a, conf, ',', &entries), n = strlen(key);
    for (size_t i = 0; i < count; i++) {
        const char *entry = entries[i];
        while (*entry == ' ')
            entry++;
        if (strncmp(entry, key, n) == 0 && entry[n] == '=')
            return entry + n + 1;
    }
    return NULL;
}

int64_t launch_conf_ms(struct arena *a, const char *conf, const char *key, int64_t absent_ms) {
    struct err e;
    double seconds;
    const char *text = launch_conf(a, conf, key);
    if (!text || str_parse_f64(text, 0, 7 * 86400, &seconds, &e) < 0)
        return absent_ms;
    return (int64_t)(seconds * 1000);
}
