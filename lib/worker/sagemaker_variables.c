// SPDX-License-Identifier: Apache-2.0
// The variables of compat.sagemaker: those that AWS's sagemaker-training toolkit sets (SM_*), those
// of simple-sagemaker (SSM_*), and TensorFlow's TF_CONFIG. Pure, but for the number of processors.
#include "base/cpu_list.h"
#include "base/env.h"
#include "base/json.h"
#include "base/str.h"
#include "sys/file.h"
#include "worker/sagemaker.h"

#include <ctype.h>
#include <string.h>

enum { VARIABLES_OWN = 64, VARIABLES_PER_CHANNEL = 3 };

struct variables {
    const struct sagemaker *s;
    struct arena *a;
    struct job_pair *items;
    int count;
    struct strbuf text; // SM_TRAINING_ENV
    struct json_out all;
};

static void add(struct variables *v, const char *name, const char *value) {
    if (strlen(name) + strlen(value) + 2 < SAGEMAKER_VARIABLE_BYTES_MAX)
        v->items[v->count++] = (struct job_pair){name, value};
}

static const char *kept(struct variables *v, struct strbuf *text) {
    const char *copy = arena_strndup(v->a, strbuf_cstr(text), text->len);
    strbuf_fini(text);
    return copy;
}

// A variable and a property of SM_TRAINING_ENV, from JSON text; either name may be NULL.
static void add_json(struct variables *v, const char *name, const char *property,
                     const char *json) {
    struct json *value;
    struct err ignored;
    must(json_parse(v->a, json, strlen(json), &value, &ignored) == 0);
    if (name)
        add(v, name, value->type == JSON_STR ? value->str : value->type == JSON_NULL ? "" : json);
    value->key = property;
    if (property)
        json_value(&v->all, value);
}

static void add_text(struct variables *v, const char *name, const char *property,
                     const char *value) {
    if (name)
        add(v, name, value);
    if (property)
        json_str(&v->all, property, value);
}

static void add_number(struct variables *v, const char *name, const char *property, int value) {
    add_json(v, name, property, arena_printf(v->a, "%d", value));
}

static void add_path(struct variables *v, const char *name, const char *property,
                     const char *below) {
    add_text(v, name, property, arena_printf(v->a, "%s/%s", v->s->base, below));
}

// A text of the job, which sagemaker_open has checked.
static const char *job_json(const struct variables *v, const char *name, const char *absent) {
    const char *text = sagemaker_text(v->s, name);
    return text[0] ? text : absent;
}

// The toolkit's spelling: other signs than letters are kept.
static const char *upper(struct arena *a, const char *prefix, const char *name) {
    char *out = arena_printf(a, "%s%s", prefix, name);
    for (char *c = out + strlen(prefix); *c; c++)
        *c = (char)toupper((unsigned char)*c);
    return out;
}

static int processors(void) {
    struct arena a = {0};
    struct err ignored;
    char *text;
    size_t len;
    cpu_set_t set;
    int count = 0;
    if (file_read(&a, "/sys/devices/system/cpu/online", 4096, &text, &len, &ignored) == 0) {
        text[strcspn(text, "\n")] = '\0';
        if (cpu_list_parse(text, &set, &ignored) == 0)
            count = CPU_COUNT(&set);
    }
    arena_fini(&a);
    return count > 0 ? count : 1;
}

// ---- the nodes ----------------------------------------------------------------------------------

static void add_nodes(struct variables *v, const struct worker_facts *f) {
    const char *resources = sagemaker_resources(v->s, v->a, f), *hosts, *group;
    struct json *root;
    struct err ignored;
    struct strbuf text = {0}, groups = {0};
    struct json_out j;
    must(json_parse(v->a, resources, strlen(resources), &root, &ignored) == 0);
    json_open(&j, &text);
    struct json list = *json_get(root, "hosts");
    list.key = NULL;
    json_value(&j, &list);
    hosts = kept(v, &text);
    group = json_get_str(root, "current_group_name", "");
    add_json(v, "SM_RESOURCE_CONFIG", "resource_config", resources);
    add_json(v, "SM_HOSTS", "hosts", hosts);
    add_text(v, "SM_CURRENT_HOST", "current_host", json_get_str(root, "current_host", ""));
    add_text(v, "CURRENT_HOST", NULL, json_get_str(root, "current_host", ""));
    add_text(v, NULL, "master_hostname", sagemaker_host(v->a, 0));
    json_bool(&v->all, "is_master", f->group_rank == 0);
    add_text(v, "SM_NETWORK_INTERFACE_NAME", "network_interface_name",
             json_get_str(root, "network_interface_name", ""));
    add_text(v, "DMLC_INTERFACE", NULL, json_get_str(root, "network_interface_name", ""));
    add_text(v, "SM_CURRENT_INSTANCE_TYPE", "current_instance_type",
             json_get_str(root, "current_instance_type", ""));
    add_text(v, "SM_CURRENT_INSTANCE_GROUP", "current_instance_group", group);
    add_json(v, "SM_CURRENT_INSTANCE_GROUP_HOSTS", "current_instance_group_hosts", hosts);
    add_json(v, "SM_INSTANCE_GROUPS", "instance_groups", arena_printf(v->a, "[\"%s\"]", group));
    json_open(&j, &groups);
    json_object(&j, NULL);
    struct json first = *json_get(root, "instance_groups")->child;
    first.key = group;
    json_value(&j, &first);
    json_end(&j);
    add_json(v, "SM_INSTANCE_GROUPS_DICT", "instance_groups_dict", kept(v, &groups));
    add_json(v, "SM_DISTRIBUTION_INSTANCE_GROUPS", "distribution_instance_groups", "[]");
    add_json(v, NULL, "distribution_hosts", "[]");
    add_json(v, "SM_IS_HETERO", "is_hetero", "false");
    add_json(v, NULL, "topology", "[]");
}

static void add_machine(struct variables *v) {
    add_number(v, "SM_NUM_CPUS", "num_cpus", processors());
    add_number(v, "SM_NUM_GPUS", "num_gpus", v->s->gpus);
    add_number(v, "SM_NUM_NEURONS", "num_neurons", 0);
}

// ---- the job ------------------------------------------------------------------------------------

static void add_folders(struct variables *v) {
    add_path(v, "SM_INPUT_DIR", "input_dir", "input");
    add_path(v, "SM_INPUT_CONFIG_DIR", "input_config_dir", "input/config");
    add_path(v, "SM_OUTPUT_DIR", "output_dir", "output");
    add_path(v, "SM_OUTPUT_DATA_DIR", "output_data_dir", "output/data");
    add_path(v, "SM_OUTPUT_INTERMEDIATE_DIR", "output_intermediate_dir", "output/intermediate");
    add_path(v, "SM_MODEL_DIR", "model_dir", "model");
    add_path(v, "SM_MODULE_DIR", "module_dir", "code");
    if (v->s->way == SAGEMAKER_VARIABLES)
        add(v, "SAGEMAKER_BASE_DIR", v->s->base);
    if (v->s->way != SAGEMAKER_MOUNTED) // the toolkit then does not wait for the names of hosts
        add(v, "SM_STUDIO_LOCAL_MODE", "true");
}

static void add_channels(struct variables *v) {
    struct strbuf names = {0}, paths = {0};
    struct json_out n, p;
    json_open(&n, &names);
    json_open(&p, &paths);
    json_array(&n, NULL);
    json_object(&p, NULL);
    for (int i = 0; i < v->s->input_count; i++) {
        const char *name = v->s->inputs[i].name;
        const char *path = arena_printf(v->a, "%s/input/data/%s", v->s->base, name);
        json_str(&n, NULL, name);
        json_str(&p, name, path);
        add(v, upper(v->a, "SM_CHANNEL_", name), path);
        add(v, env_variable(v->a, "SM_CHANNEL_", name), path); // what a shell can spell
        add(v, env_variable(v->a, "SSM_CHANNEL_", name), path);
    }
    json_end(&n);
    json_end(&p);
    add_json(v, "SM_CHANNELS", NULL, kept(v, &names));
    add_json(v, NULL, "channel_input_dirs", kept(v, &paths));
    add_json(v, "SM_INPUT_DATA_CONFIG", "input_data_config", sagemaker_channels(v->s, v->a));
}

static void add_hyperparameters(struct variables *v) {
    const char *text = job_json(v, "hps", "{}");
    struct json *root;
    struct err ignored;
    add_json(v, "SM_HPS", "hyperparameters", text);
    must(json_parse(v->a, text, strlen(text), &root, &ignored) == 0);
    for (struct json *x = root->child; x; x = x->next) {
        struct strbuf value = {0};
        struct json_out j;
        struct json copy = *x;
        copy.key = NULL;
        json_open(&j, &value);
        json_value(&j, &copy);
        add(v, upper(v->a, "SM_HP_", x->key), x->type == JSON_STR ? x->str : kept(v, &value));
        strbuf_fini(&value);
    }
}

static void add_job(struct variables *v) {
    const char *program = sagemaker_text(v->s, "entry_point"), *module = program;
    const char *region = sagemaker_text(v->s, "region");
    if (str_ends(program, ".py"))
        module = arena_strndup(v->a, program, strlen(program) - 3);
    add_text(v, "SM_USER_ENTRY_POINT", "user_entry_point", program);
    add_text(v, "SM_MODULE_NAME", "module_name", module);
    add_text(v, "SAGEMAKER_PROGRAM", NULL, program);
    add_json(v, "SM_USER_ARGS", NULL, job_json(v, "user_args", "[]"));
    add_json(v, "SM_FRAMEWORK_MODULE", "framework_module", "null");
    add_json(v, "SM_FRAMEWORK_PARAMS", "additional_framework_parameters", "{}");
    add_json(v, "SM_LOG_LEVEL", "log_level", "20");
    add_json(v, NULL, "is_modelparallel_enabled", "null");
    add_json(v, NULL, "is_smddprun_installed", "false");
    add_json(v, NULL, "is_smddpmprun_installed", "false");
    add_text(v, "TRAINING_JOB_NAME", "job_name", v->s->run);
    add_text(v, "SAGEMAKER_JOB_NAME", NULL, v->s->run);
    if (region[0]) {
        add(v, "AWS_REGION", region);
        add(v, "SAGEMAKER_REGION", region);
    }
    add(v, "TRAINING_JOB_ARN", // of no account: nothing on AWS has this name
        arena_printf(v->a, "arn:aws:sagemaker:%s:000000000000:training-job/%s", region, v->s->run));
    add(v, "AWS_EXECUTION_ENV", "dtctl");
}

// ---- simple-sagemaker and TensorFlow ------------------------------------------------------------

static void add_simple(struct variables *v, const struct worker_facts *f) {
    const char *state = arena_printf(v->a, "%s/checkpoints", v->s->base);
    add(v, "SSM_STATE", state);
    add(v, "SSM_INSTANCE_STATE", file_join(v->a, state, sagemaker_host(v->a, f->group_rank)));
    add_path(v, "SSM_OUTPUT", NULL, "output/data");
    add_path(v, "SSM_TENSORBOARD_DIR", NULL, "output/data/tensorboard");
    add(v, "SSM_NUM_NODES", arena_printf(v->a, "%d", f->group_world));
    add(v, "SSM_HOST_RANK", arena_printf(v->a, "%d", f->group_rank));
}

// One worker per rank. Unknown without all addresses, or where nodes differ in their ranks.
static void add_tensorflow(struct variables *v, const struct worker_facts *f, int local_rank) {
    struct strbuf text = {0};
    struct json_out j;
    if (!f->addresses || f->world_size != f->group_world * f->nproc ||
        f->world_size > 65535 - SAGEMAKER_TF_PORT)
        return;
    json_open(&j, &text);
    json_object(&j, NULL);
    json_object(&j, "cluster");
    json_array(&j, "worker");
    for (int i = 0; i < f->world_size; i++) {
        const char *address = f->addresses[i / f->nproc];
        json_str(&j, NULL,
                 arena_printf(v->a, strchr(address, ':') ? "[%s]:%d" : "%s:%d", address,
                              SAGEMAKER_TF_PORT + i));
    }
    json_end(&j);
    json_end(&j);
    json_object(&j, "task");
    json_str(&j, "type", "worker");
    json_int(&j, "index", f->rank + local_rank);
    json_end(&j);
    json_str(&j, "environment", "cloud");
    json_end(&j);
    add(v, "TF_CONFIG", kept(v, &text));
}

int sagemaker_variables(const struct sagemaker *s, struct arena *a, const struct worker_facts *f,
                        int local_rank, struct job_pair **out) {
    struct variables v = {.s = s, .a = a};
    struct json *hps;
    struct err ignored;
    const char *text = job_json(&v, "hps", "{}");
    must(json_parse(a, text, strlen(text), &hps, &ignored) == 0);
    v.items = arena_new(a, struct job_pair,
                        VARIABLES_OWN + hps->len + VARIABLES_PER_CHANNEL * (size_t)s->input_count);
    json_open(&v.all, &v.text);
    json_object(&v.all, NULL);
    add_nodes(&v, f);
    add_machine(&v);
    add_folders(&v);
    add_channels(&v);
    add_hyperparameters(&v);
    add_job(&v);
    json_end(&v.all);
    add(&v, "SM_TRAINING_ENV", kept(&v, &v.text));
    add_simple(&v, f);
    add_tensorflow(&v, f, local_rank);
    *out = v.items;
    return v.count;
}
