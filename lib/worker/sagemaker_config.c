// SPDX-License-Identifier: Apache-2.0
// The files of /opt/ml/input/config, and the manifest of each channel.
//
// hyperparameters.json, inputdataconfig.json and resourceconfig.json are as AWS documents them. The
// other four have the words of CreateTrainingJob.
#include "base/json.h"
#include "base/log.h"
#include "sys/file.h"
#include "sys/file_entries.h"
#include "worker/sagemaker.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char GROUP[] = "homogeneousCluster"; // SageMaker's name where all instances are alike

const char *sagemaker_text(const struct sagemaker *s, const char *name) {
    for (int i = 0; i < s->text_count; i++)
        if (strcmp(s->texts[i].name, name) == 0)
            return s->texts[i].value;
    return "";
}

const char *sagemaker_host(struct arena *a, int group_rank) {
    return arena_printf(a, "algo-%d", group_rank + 1);
}

static const char *kept(struct arena *a, struct strbuf *text) {
    const char *copy = arena_strndup(a, strbuf_cstr(text), text->len);
    strbuf_fini(text);
    return copy;
}

static const char *instance_type(const struct sagemaker *s) {
    const char *type = sagemaker_text(s, "instance_type");
    return type[0] ? type : "local";
}

static bool is_sharded(const struct job_input *in) {
    return in->mode && strcmp(in->mode, "sharded") == 0;
}

static void put_hosts(struct json_out *j, struct arena *a, int count) {
    json_array(j, "hosts");
    for (int i = 0; i < count; i++)
        json_str(j, NULL, sagemaker_host(a, i));
    json_end(j);
}

const char *sagemaker_resources(const struct sagemaker *s, struct arena *a,
                                const struct worker_facts *f) {
    struct strbuf text = {0};
    struct json_out j;
    json_open(&j, &text);
    json_object(&j, NULL);
    json_str(&j, "current_group_name", GROUP);
    json_str(&j, "current_host", sagemaker_host(a, f->group_rank));
    json_str(&j, "current_instance_type", instance_type(s));
    put_hosts(&j, a, f->group_world);
    json_array(&j, "instance_groups");
    json_object(&j, NULL);
    json_str(&j, "instance_group_name", GROUP);
    json_str(&j, "instance_type", instance_type(s));
    put_hosts(&j, a, f->group_world);
    json_end(&j);
    json_end(&j);
    json_str(&j, "network_interface_name", f->ifname[0] ? f->ifname : "eth0");
    json_end(&j);
    return kept(a, &text);
}

const char *sagemaker_channels(const struct sagemaker *s, struct arena *a) {
    struct strbuf text = {0};
    struct json_out j;
    json_open(&j, &text);
    json_object(&j, NULL);
    for (int i = 0; i < s->input_count; i++) {
        json_object(&j, s->inputs[i].name);
        json_str(&j, "TrainingInputMode", "File");
        json_str(&j, "S3DistributionType",
                 is_sharded(&s->inputs[i]) ? "ShardedByS3Key" : "FullyReplicated");
        json_str(&j, "RecordWrapperType", "None");
        json_end(&j);
    }
    json_end(&j);
    return kept(a, &text);
}

// ---- files that no round changes ----------------------------------------------------------------

// A text of the job as JSON below its key, or an empty object or array.
static void put_text(struct json_out *j, struct arena *a, const struct sagemaker *s,
                     const char *name, const char *key, const char *absent) {
    const char *text = sagemaker_text(s, name);
    struct json *value;
    struct err ignored;
    if (!text[0] || json_parse(a, text, strlen(text), &value, &ignored) < 0)
        must(json_parse(a, absent, strlen(absent), &value, &ignored) == 0);
    value->key = key;
    json_value(j, value);
}

static const char *init_config(const struct sagemaker *s, struct arena *a) {
    struct strbuf text = {0};
    struct json_out j;
    json_open(&j, &text);
    json_object(&j, NULL);
    json_str(&j, "inputMode", "FILE");
    json_object(&j, "channels");
    for (int i = 0; i < s->input_count; i++) {
        json_object(&j, s->inputs[i].name);
        json_str(&j, "inputMode", "FILE");
        json_str(&j, "localPath", arena_printf(a, "%s/input/data/%s", s->base, s->inputs[i].name));
        json_end(&j);
    }
    json_end(&j);
    json_end(&j);
    return kept(a, &text);
}

static const char *job_config(const struct sagemaker *s, struct arena *a) {
    struct strbuf text = {0};
    struct json_out j;
    json_open(&j, &text);
    json_object(&j, NULL);
    json_str(&j, "TrainingJobName", s->run);
    put_text(&j, a, s, "hyperparameters", "HyperParameters", "{}");
    json_array(&j, "InputDataConfig");
    for (int i = 0; i < s->input_count; i++) {
        json_object(&j, NULL);
        json_str(&j, "ChannelName", s->inputs[i].name);
        json_str(&j, "InputMode", "File");
        json_end(&j);
    }
    json_end(&j);
    json_object(&j, "ResourceConfig");
    json_str(&j, "InstanceType", instance_type(s));
    json_end(&j);
    json_object(&j, "CheckpointConfig");
    json_str(&j, "LocalPath", arena_printf(a, "%s/checkpoints", s->base));
    json_end(&j);
    json_end(&j);
    return kept(a, &text);
}

static const char *outputs_config(const struct sagemaker *s, struct arena *a) {
    static const char *const outputs[][2] = {
        {"model", "model"}, {"output", "output/data"}, {"checkpoint", "checkpoints"}};
    struct strbuf text = {0};
    struct json_out j;
    json_open(&j, &text);
    json_array(&j, NULL);
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        json_object(&j, NULL);
        json_str(&j, "ChannelName", outputs[i][0]);
        json_str(&j, "LocalPath", arena_printf(a, "%s/%s", s->base, outputs[i][1]));
        json_end(&j);
    }
    json_end(&j);
    return kept(a, &text);
}

// ---- manifests ----------------------------------------------------------------------------------

struct listing {
    struct json_out *json;
    struct arena *arena;
    size_t files;
};

// The files below a folder, with their paths below the channel. Links are listed and not followed.
static int list_folder(struct listing *l, const char *dir, const char *below, int depth,
                       struct err *e) {
    struct file_entries in = file_entries_open(dir);
    int rc = 0;
    while (rc == 0 && l->files <= SAGEMAKER_MANIFEST_FILES_MAX && file_entries_next(&in)) {
        struct stat st;
        if (!file_entries_stat(&in, &st))
            continue;
        const char *path = below[0] ? file_join(l->arena, below, in.name) : in.name;
        if (S_ISDIR(st.st_mode) && depth < SAGEMAKER_MANIFEST_DEPTH_MAX)
            rc = list_folder(l, file_join(l->arena, dir, in.name), path, depth + 1, e);
        else if (!S_ISDIR(st.st_mode) && ++l->files <= SAGEMAKER_MANIFEST_FILES_MAX)
            json_str(l->json, NULL, path);
    }
    return file_entries_close(&in, rc, e);
}

static int write_text(const struct sagemaker *s, const char *name, const char *text,
                      struct err *e) {
    struct arena a = {0};
    const char *path = file_join(&a, s->root, name);
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    int rc = fd < 0 ? err_errno(e, ERR_SYS, "cannot write '%s'", path)
                    : file_write_all(fd, text, strlen(text), e);
    arena_fini(&a);
    return rc;
}

// {"prefix": folder} and the files, as in a manifest of S3 objects.
static int write_manifest(const struct sagemaker *s, const struct job_input *in, struct err *e) {
    struct arena a = {0};
    struct strbuf text = {0};
    struct json_out j;
    struct stat st;
    struct listing l = {&j, &a, 0};
    json_open(&j, &text);
    json_array(&j, NULL);
    json_object(&j, NULL);
    json_str(&j, "prefix", arena_printf(&a, "%s/input/data/%s/", s->base, in->name));
    json_end(&j);
    int rc = 0;
    if (stat(in->path, &st) == 0 && !S_ISDIR(st.st_mode))
        json_str(&j, NULL, file_base(in->path));
    else
        rc = list_folder(&l, in->path, "", 0, e);
    json_end(&j);
    if (l.files > SAGEMAKER_MANIFEST_FILES_MAX)
        log_warn("a channel has no manifest", "channel=%s reason=it has more than %d files",
                 in->name, SAGEMAKER_MANIFEST_FILES_MAX);
    else if (rc == 0)
        rc = write_text(s, arena_printf(&a, "input/data/%s-manifest", in->name), strbuf_cstr(&text),
                        e);
    strbuf_fini(&text);
    arena_fini(&a);
    return rc;
}

int sagemaker_write_config(const struct sagemaker *s, struct err *e) {
    struct arena a = {0};
    const char *hp = sagemaker_text(s, "hyperparameters"), *metrics = sagemaker_text(s, "metrics");
    const struct {
        const char *name, *text;
    } files[] = {
        {"hyperparameters", hp[0] ? hp : "{}"},
        {"inputdataconfig", sagemaker_channels(s, &a)},
        {"init-config", init_config(s, &a)},
        {"metric-definition-regex", metrics[0] ? metrics : "[]"},
        {"trainingjobconfig", job_config(s, &a)},
        {"upstreamoutputdataconfig", outputs_config(s, &a)},
    };
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof files / sizeof *files; i++)
        rc = write_text(s, arena_printf(&a, "input/config/%s.json", files[i].name), files[i].text,
                        e);
    for (int i = 0; rc == 0 && i < s->input_count; i++)
        rc = write_manifest(s, &s->inputs[i], e);
    arena_fini(&a);
    return rc;
}

// ---- the round ----------------------------------------------------------------------------------

// The machine's own lines, and the names of the round's nodes as far as addresses are known.
static int write_hosts(const struct sagemaker *s, struct arena *a, const struct worker_facts *f,
                       struct err *e) {
    enum { HOSTS_BYTES_MAX = 1 << 20 };
    struct strbuf text = {0};
    struct err ignored;
    char *own;
    size_t len;
    for (int i = 0; f->addresses && i < f->group_world; i++)
        strbuf_addf(&text, "%s %s\n", f->addresses[i], sagemaker_host(a, i));
    if (file_read(a, "/etc/hosts", HOSTS_BYTES_MAX, &own, &len, &ignored) == 0)
        strbuf_add(&text, own, len);
    int rc = write_text(s, s->hosts_file, strbuf_cstr(&text), e);
    strbuf_fini(&text);
    return rc;
}

int sagemaker_round(struct sagemaker *s, const struct worker_facts *f, struct err *e) {
    struct arena a = {0};
    unlink(file_join(&a, s->root, "output/failure")); // of an earlier round
    int rc = write_text(s, "input/config/resourceconfig.json", sagemaker_resources(s, &a, f), e);
    if (rc == 0)
        rc = write_hosts(s, &a, f, e);
    if (rc == 0) // SSM_INSTANCE_STATE
        rc = file_make_dirs(file_join(&a, s->state, sagemaker_host(&a, f->group_rank)), 0755, e);
    arena_fini(&a);
    return rc;
}

const char *sagemaker_failure(const struct sagemaker *s, struct arena *a) {
    char text[SAGEMAKER_FAILURE_BYTES_MAX];
    auto_close int fd = open(file_join(a, s->root, "output/failure"),
                             O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' '))
        n--;
    for (ssize_t i = 0; i < n; i++)
        if (text[i] == '\0')
            text[i] = ' ';
    return n > 0 ? arena_strndup(a, text, (size_t)n) : "";
}
