// SPDX-License-Identifier: Apache-2.0
// Training jobs of SageMaker: the JSON of a CreateTrainingJob request, or of describe-training-job.
#include "convert/convert.h"

#include <string.h>

// AWS's base image takes this much of the root volume; SageMaker counts the volume for data alone.
enum { SYSTEM_GB = 60 };

#define INSTANCE_PREFIX "ml."
#define SDK_PREFIX      "sagemaker_"
#define OPT_ML_STATE    "/opt/ml/checkpoints"

struct job {
    const char *program; // sagemaker_program
    struct convert_from program_from;
    bool per_gpu; // a library of SageMaker starts a process on each GPU
};

static const char *text_of(const struct convert_walk *w, const struct json *v) {
    const char *text = convert_field_text(w->draft->arena, v);
    return text ? text : "";
}

// ---- machines -----------------------------------------------------------------------------------

static enum convert_next take_type(struct convert_walk *w, const struct json *v) {
    const char *type = text_of(w, v);
    if (!*type)
        return CONVERT_DONE;
    convert_field_set(w, "cluster.provider", "aws");
    convert_field_set(w, "aws.instance_type",
                      str_starts(type, INSTANCE_PREFIX) ? type + strlen(INSTANCE_PREFIX) : type);
    return CONVERT_DONE;
}

static enum convert_next take_count(struct convert_walk *w, const struct json *v) {
    convert_field_set(w, "cluster.nodes", text_of(w, v));
    return CONVERT_DONE;
}

static enum convert_next take_volume(struct convert_walk *w, const struct json *v) {
    int64_t gb = v->type == JSON_INT ? v->integer : 0;
    if (gb > 0 && gb < 1 << 20)
        convert_field_set(w, "aws.root_gb",
                          arena_printf(w->draft->arena, "%lld", (long long)gb + SYSTEM_GB));
    else
        convert_draft_note(w->draft, w->from, "left out: no volume has %lld GB",
                           (long long)v->integer);
    return CONVERT_DONE;
}

static enum convert_next take_idle(struct convert_walk *w, const struct json *v) {
    if (v->integer != 0)
        convert_field_seconds(w, "lease.idle", v->integer);
    else
        convert_draft_needless(w->draft, w->from);
    return CONVERT_DONE;
}

static enum convert_next take_spot(struct convert_walk *w, const struct json *v) {
    convert_draft_add(w->draft, w->from, "aws.fallback",
                      v->type == JSON_BOOL && v->boolean ? "spot" : "on-demand");
    return CONVERT_DONE;
}

static enum convert_next take_seconds(struct convert_walk *w, const struct json *v) {
    convert_field_seconds(w, "task.max_time", v->integer);
    return CONVERT_DONE;
}

static enum convert_next take_subnets(struct convert_walk *w, const struct json *v) {
    const char *first = v->child ? text_of(w, v->child) : "";
    if (*first)
        convert_field_set(w, "aws.subnet", first);
    if (v->len > 1)
        convert_draft_note(w->draft, w->from, "only the first subnet is taken: nodes share one");
    return CONVERT_DONE;
}

static enum convert_next take_isolation(struct convert_walk *w, const struct json *v) {
    if (v->type == JSON_BOOL && v->boolean)
        convert_field_set(w, "aws.egress", "closed");
    else
        convert_draft_needless(w->draft, w->from);
    return CONVERT_DONE;
}

static enum convert_next take_kms(struct convert_walk *w, const struct json *v) {
    const char *key = text_of(w, v);
    if (str_starts(key, "arn:"))
        convert_field_set(w, "aws.kms_key", key);
    else if (*key)
        convert_draft_note(w->draft, w->from, "left out: aws.kms_key takes the ARN of the key");
    return CONVERT_DONE;
}

// ---- the program --------------------------------------------------------------------------------

// The SDK writes every value as JSON: "\"train.py\"", "10".
static const char *decoded(struct arena *a, const char *text) {
    struct json *v;
    struct err ignored = {0};
    if (text[0] == '"' && json_parse(a, text, strlen(text), &v, &ignored) == 0 &&
        v->type == JSON_STR && strlen(v->str) == v->len)
        return v->str;
    return text;
}

static bool is_true(const char *text) {
    return strcasecmp(text, "true") == 0;
}

// The hyperparameters that the SDK adds for its own container.
static void take_sdk(struct convert_walk *w, const char *name, const char *value) {
    static const struct {
        const char *name, *advice; // NULL: nothing is lost
    } words[] = {
        {"sagemaker_submit_directory",
         "unpack this archive here and run dtctl train in its folder: the folder is sent"},
        {"sagemaker_container_log_level", NULL},
        {"sagemaker_job_name", NULL},
        {"sagemaker_region", NULL},
        {"sagemaker_instance_type", NULL},
        {"sagemaker_distributed_dataparallel_custom_mpi_options", NULL},
        {"sagemaker_mpi_custom_mpi_options", "set what it exports in [env]"},
        {"sagemaker_requirements", "run pip install -r with it in setup.run"},
    };
    struct job *job = w->state;
    if (strcmp(name, "sagemaker_program") == 0) {
        job->program = value;
        job->program_from = w->from;
    } else if (strcmp(name, "sagemaker_mpi_num_of_processes_per_host") == 0) {
        convert_field_set(w, "train.nproc_per_node", value);
    } else if (strcmp(name, "sagemaker_distributed_dataparallel_enabled") == 0) {
        job->per_gpu |= is_true(value);
        if (is_true(value))
            convert_draft_note(w->draft, w->from,
                               "smdistributed.dataparallel is a library of SageMaker: use "
                               "torch.distributed with nccl or gloo instead of it in the script; "
                               "the ranks are started as for torchrun");
    } else if (str_ends(name, "_enabled")) {
        job->per_gpu |= is_true(value);
        convert_draft_needless(w->draft, w->from);
    } else {
        size_t i = 0, count = sizeof words / sizeof words[0];
        while (i < count && strcmp(words[i].name, name) != 0)
            i++;
        if (i < count && !words[i].advice)
            convert_draft_needless(w->draft, w->from);
        else
            convert_draft_note(w->draft, w->from, "%s",
                               i == count ? "left out: it is for SageMaker's own container"
                                          : words[i].advice);
    }
}

static enum convert_next take_hyperparameters(struct convert_walk *w, const struct json *v) {
    struct arena *a = w->draft->arena;
    const char *path = w->from.name;
    for (const struct json *c = v->child; v->type == JSON_OBJECT && c; c = c->next) {
        const char *single = convert_field_text(a, c), *value = decoded(a, single ? single : "");
        w->from = (struct convert_from){c->line, arena_printf(a, "%s.%s", path, c->key)};
        if (!single)
            convert_draft_note(w->draft, w->from, "left out: a single value is expected");
        else if (str_starts(c->key, SDK_PREFIX))
            take_sdk(w, c->key, value);
        else if (strcmp(c->key, "mp_parameters") == 0)
            convert_draft_note(w->draft, w->from,
                               "smdistributed.modelparallel is a library of SageMaker; dtctl's "
                               "native trainer has stages (train.pipeline), see: dtctl help "
                               "parallel");
        else
            convert_draft_pair(w->draft, w->from, "hyperparameters", c->key, value);
    }
    return CONVERT_DONE;
}

// The words come in a fixed order, whatever the order of the file.
static int add_words(struct convert_draft *d, const struct json *root, const char *name,
                     struct err *e) {
    const struct json *v = json_get(json_get(root, "AlgorithmSpecification"), name);
    if (v && v->type != JSON_ARRAY && v->type != JSON_NULL)
        return err_set(e, ERR_CONFIG, "line %d: %s is no list", v->line, name);
    for (const struct json *c = v ? v->child : NULL; c; c = c->next) {
        const char *text = convert_field_text(d->arena, c);
        if (!text)
            return err_set(e, ERR_CONFIG, "line %d: a word of %s is no text", c->line, name);
        if (!convert_draft_add(d, (struct convert_from){v->line, name}, "train.command", text))
            return err_set(e, ERR_CONFIG, "line %d: the program is not taken: %s", c->line,
                           convert_draft_last_note(d));
    }
    return 0;
}

// Texts of dtctl end at their first NUL.
static int check_texts(const struct json *v, struct err *e) {
    for (const struct json *c = v->child; c; c = c->next) {
        if (c->key && strlen(c->key) != c->key_len)
            return err_set(e, ERR_CONFIG, "line %d: a member name holds a NUL", c->line);
        if (c->type == JSON_STR && strlen(c->str) != c->len)
            return err_set(e, ERR_CONFIG, "line %d: a value holds a NUL", c->line);
        if ((c->type == JSON_ARRAY || c->type == JSON_OBJECT) && check_texts(c, e) < 0)
            return -1;
    }
    return 0;
}

static enum convert_next take_words(struct convert_walk *w, const struct json *v) {
    (void)w;
    (void)v;
    return CONVERT_DONE; // add_words has taken them
}

static enum convert_next take_metrics(struct convert_walk *w, const struct json *v) {
    const char *name = json_get_str(v, "Name", NULL), *regex = json_get_str(v, "Regex", NULL);
    static const char *const known[] = {"Name", "Regex", NULL};
    convert_field_others(w, v, known);
    if (name && regex)
        convert_draft_pair(w->draft, w->from, "metrics", name, regex);
    else
        convert_draft_note(w->draft, w->from, "left out: Name and Regex are texts");
    return CONVERT_DONE;
}

static enum convert_next take_environment(struct convert_walk *w, const struct json *v) {
    for (const struct json *c = v->child; c; c = c->next)
        convert_field_pair(w, "env", "Environment", c);
    return CONVERT_DONE;
}

static enum convert_next take_tag(struct convert_walk *w, const struct json *v) {
    const char *key = json_get_str(v, "Key", NULL), *value = json_get_str(v, "Value", NULL);
    static const char *const known[] = {"Key", "Value", NULL};
    convert_field_others(w, v, known);
    if (key && value)
        convert_draft_pair(w->draft, w->from, "aws.tags", key, value);
    else
        convert_draft_note(w->draft, w->from, "left out: Key and Value are texts");
    return CONVERT_DONE;
}

// ---- data ---------------------------------------------------------------------------------------

// FastFile is a folder of SageMaker's that fills while it is read; here a program that streams
// reads addresses, and compat.sagemaker gives it files.
static void note_mode(struct convert_walk *w, const char *where, const char *mode) {
    if (str_eq(mode, "FastFile"))
        convert_draft_note(w->draft, w->from,
                           "%sFastFile: with compat.sagemaker files are copied before the first "
                           "rank starts; a program that reads addresses takes deliver = \"stream\" "
                           "without compat.sagemaker",
                           where);
    else if (*mode && !str_eq(mode, "File"))
        convert_draft_note(w->draft, w->from,
                           "%s%s is not available; every file is copied before the first rank "
                           "starts",
                           where, mode);
}

// An input follows from one channel as a whole: its source comes before all else.
static enum convert_next take_channel(struct convert_walk *w, const struct json *v) {
    struct convert_draft *d = w->draft;
    static const char *const known[] = {
        "ChannelName",       "DataSource",    "InputMode", "CompressionType",
        "RecordWrapperType", "ShuffleConfig", NULL};
    static const char *const known_s3[] = {"S3DataType", "S3Uri", "S3DataDistributionType", NULL};
    const struct json *s3 = json_get(json_get(v, "DataSource"), "S3DataSource");
    convert_field_others(w, v, known);
    if (s3)
        convert_field_others(w, s3, known_s3);
    const char *name = json_get_str(v, "ChannelName", ""), *type, *way, *mode;
    type = json_get_str(s3, "S3DataType", "S3Prefix");
    way = json_get_str(s3, "S3DataDistributionType", "FullyReplicated");
    mode = json_get_str(v, "InputMode", "File");
    if (!s3) {
        convert_draft_note(d, w->from,
                           "channel '%s' is on a file system, not in S3: left out; "
                           "name a folder of this computer in [inputs.%s]",
                           name, name);
        return CONVERT_DONE;
    }
    if (strcmp(type, "S3Prefix") != 0) {
        convert_draft_note(d, w->from,
                           "channel '%s' is a list (%s): left out; copy its objects "
                           "under one prefix and name it in [inputs.%s]",
                           name, type, name);
        return CONVERT_DONE;
    }
    if (!convert_draft_input(d, w->from, name, "source", json_get_str(s3, "S3Uri", "")))
        return CONVERT_DONE;
    convert_draft_input(d, w->from, name, "mode", way);
    const struct json *seed = json_get(json_get(v, "ShuffleConfig"), "Seed");
    if (seed && strcmp(way, "ShardedByS3Key") == 0)
        convert_draft_input(d, w->from, name, "order",
                            arena_printf(d->arena, "shuffle:%s", text_of(w, seed)));
    else if (seed)
        convert_draft_note(d, (struct convert_from){seed->line, "ShuffleConfig.Seed"},
                           "left out: only ShardedByS3Key deals files; shuffle in the program");
    note_mode(w, arena_printf(d->arena, "channel '%s': ", name), mode);
    if (!str_eq(json_get_str(v, "CompressionType", "None"), "None"))
        convert_draft_note(d, w->from, "channel '%s' is compressed; unpack it in the program",
                           name);
    if (!str_eq(json_get_str(v, "RecordWrapperType", "None"), "None"))
        convert_draft_note(d, w->from, "channel '%s': records are not wrapped as RecordIO", name);
    return CONVERT_DONE;
}

static enum convert_next take_mode(struct convert_walk *w, const struct json *v) {
    if (str_eq(text_of(w, v), "File"))
        convert_draft_needless(w->draft, w->from);
    note_mode(w, "", text_of(w, v));
    return CONVERT_DONE;
}

static enum convert_next take_output(struct convert_walk *w, const struct json *v) {
    if (*text_of(w, v))
        convert_field_set(w, "outputs.s3", text_of(w, v));
    return CONVERT_DONE;
}

static enum convert_next take_state(struct convert_walk *w, const struct json *v) {
    convert_field_set(w, "state.keep", "task");
    convert_draft_note(w->draft, w->from,
                       "checkpoints go to outputs.s3 with the results, below TASK/runs/RUN/state; "
                       "copy those in %s to the state of a run if one has to begin with them",
                       text_of(w, v));
    return CONVERT_DONE;
}

static enum convert_next take_state_path(struct convert_walk *w, const struct json *v) {
    if (*text_of(w, v) && strcmp(text_of(w, v), OPT_ML_STATE) != 0)
        convert_draft_note(w->draft, w->from,
                           "the folder of checkpoints is " OPT_ML_STATE " or $DTCTL_STATE_DIR");
    else
        convert_draft_needless(w->draft, w->from);
    return CONVERT_DONE;
}

// ---- the table ----------------------------------------------------------------------------------

#define RESULT(path)                                                                               \
    { .name = path, .key = "", .text = "a result of the job" }
#define REPORTS "dtctl shows metrics, logs and failures of every rank by itself"

const struct convert_field convert_sagemaker_fields[] = {
    {.name = "TrainingJobName", .key = "train.name"},
    CONVERT_TAKE("ResourceConfig.InstanceType", "aws.instance_type", take_type,
                 "without `ml.`; cluster.provider is `aws`"),
    CONVERT_TAKE("ResourceConfig.InstanceCount", "cluster.nodes", take_count, NULL),
    CONVERT_TYPED("ResourceConfig.VolumeSizeInGB", "aws.root_gb", take_volume,
                  "and 60 for the system", CONVERT_INT),
    CONVERT_TAKE("ResourceConfig.VolumeKmsKeyId", "aws.kms_key", take_kms, "if it is an ARN"),
    CONVERT_TYPED("ResourceConfig.KeepAlivePeriodInSeconds", "lease.idle", take_idle, NULL,
                  CONVERT_INT),
    CONVERT_NONE("ResourceConfig.InstanceGroups", "all nodes have one type; set aws.instance_type"),
    CONVERT_NONE("ResourceConfig.TrainingPlanArn", "set aws.capacity_reservation"),
    CONVERT_NONE("ResourceConfig.InstancePlacementConfig", "set aws.placement_group"),
    CONVERT_TYPED("EnableManagedSpotTraining", "aws.fallback", take_spot, "`spot` or `on-demand`",
                  CONVERT_BOOL),
    CONVERT_TYPED("StoppingCondition.MaxRuntimeInSeconds", "task.max_time", take_seconds, NULL,
                  CONVERT_INT),
    CONVERT_NONE("StoppingCondition.MaxWaitTimeInSeconds", "up tries every zone once; repeat it"),
    CONVERT_NONE("StoppingCondition.MaxPendingTimeInSeconds",
                 "up tries every zone once; repeat it"),
    CONVERT_NONE("RetryStrategy",
                 "train.max_restarts starts failed ranks again, train.replace_nodes "
                 "replaces lost instances"),
    CONVERT_TYPED("VpcConfig.Subnets", "aws.subnet", take_subnets,
                  "the first one; set aws.vpc, too", CONVERT_LIST),
    CONVERT_NONE("VpcConfig.SecurityGroupIds", "up makes a security group for each cluster"),
    CONVERT_TYPED("EnableNetworkIsolation", "aws.egress", take_isolation, "`closed`", CONVERT_BOOL),
    CONVERT_NONE("EnableInterContainerTrafficEncryption",
                 "agents authenticate each other; the ranks' own traffic is not encrypted"),
    CONVERT_NONE("RoleArn",
                 "dtctl uses the credentials of this computer; nodes get none. For a role on "
                 "the nodes set aws.instance_profile"),
    CONVERT_NONE(
        "AlgorithmSpecification.TrainingImage",
        "dtctl runs no containers; install what the program needs in setup.run, or name a machine "
        "image in aws.image"),
    CONVERT_NONE("AlgorithmSpecification.AlgorithmName",
                 "built-in algorithms are not available; name a program in train.command"),
    CONVERT_NONE("AlgorithmSpecification.TrainingImageConfig", "dtctl runs no containers"),
    CONVERT_TAKE(
        "AlgorithmSpecification.TrainingInputMode", "inputs.NAME.deliver", take_mode,
        "`File`; `FastFile` is copied, and a remark says how to stream; `Pipe` is not available"),
    CONVERT_TYPED("AlgorithmSpecification.ContainerEntrypoint", "train.command", take_words, NULL,
                  CONVERT_LIST),
    CONVERT_TYPED("AlgorithmSpecification.ContainerArguments", "train.command", take_words,
                  "at its end", CONVERT_LIST),
    {.name = "AlgorithmSpecification.EnableSageMakerMetricsTimeSeries",
     .key = "",
     .text = "metrics.jsonl has every value"},
    CONVERT_TYPED("AlgorithmSpecification.MetricDefinitions[]", "metrics", take_metrics, NULL,
                  CONVERT_MAP),
    CONVERT_TYPED("HyperParameters", "hyperparameters", take_hyperparameters,
                  "`sagemaker_program` is train.command; other `sagemaker_…` are for its container",
                  CONVERT_MAP),
    CONVERT_TYPED("Environment", "env", take_environment, NULL, CONVERT_MAP),
    CONVERT_TYPED("Tags[]", "aws.tags", take_tag, NULL, CONVERT_MAP),
    CONVERT_TYPED("InputDataConfig[]", "inputs.NAME", take_channel,
                  "S3Uri is source, S3DataDistributionType is mode, ShuffleConfig is order",
                  CONVERT_MAP),
    CONVERT_TAKE("OutputDataConfig.S3OutputPath", "outputs.s3", take_output, NULL),
    CONVERT_NONE("OutputDataConfig.KmsKeyId", "set the encryption of the bucket"),
    CONVERT_NONE("OutputDataConfig.CompressionType", "results are stored file by file"),
    CONVERT_TAKE("CheckpointConfig.S3Uri", "state.keep", take_state, "`task`"),
    CONVERT_TAKE("CheckpointConfig.LocalPath", "", take_state_path,
                 OPT_ML_STATE " is the run's state"),
    CONVERT_NONE("DebugHookConfig", REPORTS),
    CONVERT_NONE("DebugRuleConfigurations", REPORTS),
    CONVERT_NONE("TensorBoardOutputConfig", "write TensorBoard's files to $DTCTL_OUTPUT_DIR"),
    CONVERT_NONE("ProfilerConfig", REPORTS),
    CONVERT_NONE("ProfilerRuleConfigurations", REPORTS),
    CONVERT_NONE("ExperimentConfig", "a run has its own record; put what it needs into aws.tags"),
    CONVERT_NONE("MlflowConfig", "log to a server from the program, with its address in [env]"),
    CONVERT_NONE("InfraCheckConfig", "dtctl doctor checks the nodes"),
    CONVERT_NONE("RemoteDebugConfig", "dtctl ssh NODE opens a shell"),
    CONVERT_NONE("SessionChainingConfig", "dtctl uses the credentials of this computer"),
    CONVERT_NONE("ServerlessJobConfig", "name an instance type in aws.instance_type"),
    CONVERT_NONE("ModelPackageConfig", "register the model after the run"),
    RESULT("TrainingJobArn"),
    RESULT("TuningJobArn"),
    RESULT("LabelingJobArn"),
    RESULT("AutoMLJobArn"),
    RESULT("ModelArtifacts"),
    RESULT("TrainingJobStatus"),
    RESULT("SecondaryStatus"),
    RESULT("SecondaryStatusTransitions"),
    RESULT("FailureReason"),
    RESULT("CreationTime"),
    RESULT("TrainingStartTime"),
    RESULT("TrainingEndTime"),
    RESULT("LastModifiedTime"),
    RESULT("FinalMetricDataList"),
    RESULT("TrainingTimeInSeconds"),
    RESULT("BillableTimeInSeconds"),
    RESULT("DebugRuleEvaluationStatuses"),
    RESULT("ProfilerRuleEvaluationStatuses"),
    RESULT("ProfilingStatus"),
    RESULT("WarmPoolStatus"),
    RESULT("ResponseMetadata"),
    {.name = NULL},
};

static void note_unused(struct convert_draft *d, const struct json *root, const struct job *job,
                        bool entry) {
    const struct json *words =
        json_get(json_get(root, "AlgorithmSpecification"), "ContainerArguments");
    if (entry && job->program)
        convert_draft_note(d, job->program_from, "left out: ContainerEntrypoint is the program");
    if (!entry && words && words->len)
        convert_draft_note(d, (struct convert_from){words->line, "ContainerArguments"},
                           "left out: these words are for the entry point of the image");
}

int convert_sagemaker_read(struct convert_draft *d, const char *text, size_t len, struct err *e) {
    struct job job = {0};
    struct convert_walk w = {.draft = d, .fields = convert_sagemaker_fields, .state = &job};
    struct convert_from whole = {0, "TrainingJob"};
    struct json *root;
    if (json_parse(d->arena, text, len, &root, e) < 0) {
        e->code = ERR_CONFIG;
        return -1;
    }
    if (check_texts(root, e) < 0)
        return -1;
    if (root->type != JSON_OBJECT || !json_get(root, "ResourceConfig"))
        return err_set(e, ERR_CONFIG,
                       "line 1: this is no CreateTrainingJob request: it has no ResourceConfig");
    if (add_words(d, root, "ContainerEntrypoint", e) < 0)
        return -1;
    bool entry = convert_draft_has(d, "train.command");
    if (entry && add_words(d, root, "ContainerArguments", e) < 0)
        return -1;
    convert_field_tree(&w, root);
    note_unused(d, root, &job, entry);
    convert_draft_set(d, whole, "compat.sagemaker", "true");
    if (job.per_gpu && !convert_draft_has(d, "train.nproc_per_node"))
        convert_draft_set(d, job.program_from.name ? job.program_from : whole,
                          "train.nproc_per_node", "gpu");
    if (convert_draft_has(d, "train.command"))
        return 0;
    if (job.program) {
        if (!convert_draft_add(d, job.program_from, "train.command", job.program))
            return err_set(e, ERR_CONFIG, "line %d: the program is not taken: %s",
                           job.program_from.line, convert_draft_last_note(d));
    } else
        convert_draft_note(d, whole,
                           "it names no program; set train.command to what the image "
                           "runs");
    return 0;
}
