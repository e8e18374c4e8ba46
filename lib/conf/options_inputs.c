// SPDX-License-Identifier: Apache-2.0
// [inputs.NAME]: where data comes from and how it is shared among the nodes.
#include "conf/config.h"
#include "conf/deal_words.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

#define AT(field) .offset = offsetof(struct config_input, field)

#define SHUFFLE        "shuffle:"
#define DEFAULT_WINDOW "1GiB"
#define WINDOW_DEFAULT ((int64_t)1 << 30)

enum { REPLICAS_DEFAULT = 1 };

static const char *const modes[] = {"replicated", "sharded", "FullyReplicated", "ShardedByS3Key",
                                    NULL};
static const char *const units[] = {"file", "sample", NULL};
static const char *const changes[] = {"resend", "keep", "refuse", NULL}; // enum config_change

// ---- checks -------------------------------------------------------------------------------------

// Input names become part of a variable (DTCTL_INPUT_<NAME>) and of a path.
int config_input_check_name(const char *name, struct err *e) {
    size_t len = strlen(name);
    bool fine = len && len <= OPTION_PLAIN_BYTES_MAX && isalpha((unsigned char)name[0]);
    for (size_t i = 0; i < len; i++)
        fine = fine && (isalnum((unsigned char)name[i]) || name[i] == '_' || name[i] == '-');
    if (fine)
        return 0;
    return err_set(e, ERR_CONFIG,
                   "'%.100s' is not a valid name of an input: use letters, digits, '_' and '-', "
                   "at most %d, and a letter first",
                   name, OPTION_PLAIN_BYTES_MAX);
}

static int check_source(const char *text, struct err *e) {
    return *text ? 0 : err_set(e, ERR_CONFIG, "the source is empty");
}

static int check_order(const char *text, struct err *e) {
    int64_t seed;
    struct err why = {0};
    if (strcmp(text, "name") == 0 ||
        (str_starts(text, SHUFFLE) &&
         str_parse_i64(text + strlen(SHUFFLE), 0, INT64_MAX, &seed, &why) == 0))
        return 0;
    return err_set(e, ERR_CONFIG, "'%.100s' is neither name nor shuffle:SEED", text);
}

// SageMaker's input modes are words of this key.
static int check_deliver(const char *text, struct err *e) {
    static const char *const words[] = {"copy", "stream", "extract", "File", "FastFile", NULL};
    for (int i = 0; words[i]; i++)
        if (strcmp(text, words[i]) == 0)
            return 0;
    if (strcmp(text, "Pipe") == 0)
        return err_set(e, ERR_CONFIG,
                       "'Pipe' is not available: a named pipe can be read once and from its "
                       "beginning only (try: stream)");
    return err_set(e, ERR_CONFIG, "'%.100s' is none of copy, stream, extract, File, FastFile",
                   text);
}

static int check_pattern(const char *text, struct err *e) {
    return *text && *text != '!' && *text != '#'
               ? 0
               : err_set(e, ERR_CONFIG, "'%.100s' is not a pattern such as *.tar or train/**",
                         text);
}

// ---- rows ---------------------------------------------------------------------------------------

static const struct option_row rows[] = {
    {.key = "name", .type = OPTION_STRING, AT(name), .help = "Name of the input."},
    {.key = "source",
     .type = OPTION_PATH,
     .marks = OPTION_REQUIRED | OPTION_ADDRESS,
     AT(source),
     .arg = "PATH|s3://…|https://…|run:TASK/PART",
     .check = check_source,
     .help = "File or folder on this computer; objects, which the nodes read themselves: "
             "s3://BUCKET/KEY (an object or a folder) or https://…; or results of an earlier run: "
             "run:TASK[@RUN]/PART[/SUB], where PART is output, model, state or source."},
    {.key = "mode",
     .type = OPTION_CHOICE,
     AT(mode),
     .text = "replicated",
     .choices = modes,
     .help = "replicated: every node gets all of it; sharded: every node gets a part. "
             "FullyReplicated and ShardedByS3Key (sharded by key) are SageMaker's words."},
    {.key = "shard",
     .type = OPTION_CHOICE,
     AT(shard),
     .text = "size",
     .choices = deal_shard_words,
     .help = "How a sharded input is dealt. size: equal bytes; key: contiguous by name, counts "
             "differ by at most one; count: the files in turn, counts differ by at most one."},
    {.key = "unit",
     .type = OPTION_CHOICE,
     AT(unit),
     .text = "file",
     .choices = units,
     .help = "Unit that is dealt. file: whole files; sample: members of .tar files that share a "
             "name up "
             "to the first dot, so that one archive may be split among nodes."},
    {.key = "order",
     .type = OPTION_STRING,
     AT(order),
     .text = "name",
     .arg = "name|shuffle:SEED",
     .check = check_order,
     .help = "Order before dealing by key or count."},
    {.key = "uneven",
     .type = OPTION_CHOICE,
     AT(uneven),
     .text = "allow",
     .choices = deal_uneven_words,
     .help = "When nodes get different counts. allow: they do; pad: the first ones of the order "
             "are repeated until all have the same count; drop: the last ones are left out; "
             "refuse: the run does not start."},
    {.key = "deliver",
     .type = OPTION_STRING,
     AT(deliver),
     .text = "copy",
     .arg = "copy|stream|extract",
     .check = check_deliver,
     .help =
         "copy: files on the disk of the node, before the first rank starts; stream: ranks read "
         "objects or files by http://127.0.0.1 addresses while they come, and the native trainer "
         "reads webdataset shards by their index; extract: as copy, and .tar and .tar.zst files "
         "are "
         "unpacked where they lie. File and FastFile are SageMaker's words."},
    {.key = "window",
     .type = OPTION_BYTES,
     AT(window),
     .text = DEFAULT_WINDOW,
     .min = 1,
     .max = (int64_t)1 << 50,
     .arg = "SIZE",
     .help = "deliver = stream: bytes that a node fetches ahead of its readers."},
    {.key = "cache_max",
     .type = OPTION_BYTES,
     AT(cache_max),
     .text = "0",
     .min = 0,
     .max = (int64_t)1 << 50,
     .arg = "SIZE",
     .help = "deliver = stream: bytes of the input that stay on a node; the object that was read "
             "longest ago is removed first. 0: as much as the disk holds."},
    {.key = "replicas",
     .type = OPTION_INT,
     AT(replicas),
     .text = "1",
     .min = 0,
     .max = CONFIG_REPLICAS_MAX,
     .help = "mode = sharded, in a run with --nodes MIN:MAX or spares: other nodes that also keep "
             "the files of a share, so that the files of a lost node can be dealt to the others. "
             "0: they are lost with their node."},
    {.key = "on_change",
     .type = OPTION_CHOICE,
     AT(on_change),
     .text = "resend",
     .choices = changes,
     .help =
         "When the source is not what the last run of the task had. resend: the run has the new "
         "content, and the plan says so; keep: the run has the content of the last run, which the "
         "nodes keep, as long as the words of source stay the same; refuse: the run does not "
         "start."},
    {.key = "include",
     .type = OPTION_LIST,
     AT(include),
     .arg = "PATTERN",
     .check = check_pattern,
     .help = "Only files that match one of these patterns (syntax as in .dtctlignore)."},
    {.key = "exclude",
     .type = OPTION_LIST,
     AT(exclude),
     .arg = "PATTERN",
     .check = check_pattern,
     .help = "No files or folders that match one of these patterns."},
};

// NAME=SOURCE[:MODE]
static int from_text(struct arena *a, const char *text, void *element, struct err *e) {
    struct config_input *in = element;
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1])
        return err_set(e, ERR_CONFIG, "'%.100s' is not NAME=SOURCE[:replicated|:sharded]", text);
    in->name = arena_strndup(a, text, (size_t)(equals - text));
    in->source = arena_strdup(a, equals + 1);
    for (int i = 0; modes[i]; i++) {
        const char *suffix = arena_printf(a, ":%s", modes[i]);
        if (str_ends(in->source, suffix)) {
            in->source = arena_strndup(a, in->source, strlen(in->source) - strlen(suffix));
            in->mode = i;
            break;
        }
    }
    if (in->source[0] == '\0')
        return check_source(in->source, e);
    return option_parse(a, &rows[1], in->source, &in->source, e);
}

const struct option_record config_input_record = {
    .size = sizeof(struct config_input),
    .rows = rows,
    .count = sizeof rows / sizeof rows[0],
    .named = true,
    .place_offset = offsetof(struct config_input, place),
    .from_text = from_text,
};

// ---- questions ----------------------------------------------------------------------------------

bool config_input_is_sharded(const struct config_input *in) {
    return in->mode == CONFIG_SHARDED || in->mode == CONFIG_SHARDED_BY_KEY;
}

bool config_input_is_streamed(const struct config_input *in) {
    return strcmp(in->deliver, "stream") == 0 || strcmp(in->deliver, "FastFile") == 0;
}

bool config_input_is_extracted(const struct config_input *in) {
    return strcmp(in->deliver, "extract") == 0;
}

int config_input_shard(const struct config_input *in) {
    return in->mode == CONFIG_SHARDED_BY_KEY ? CONFIG_SHARD_KEY : in->shard;
}

bool config_input_seed(const struct config_input *in, uint64_t *seed) {
    int64_t value = 0;
    struct err ignored = {0};
    if (!str_starts(in->order, SHUFFLE))
        return false;
    must(str_parse_i64(in->order + strlen(SHUFFLE), 0, INT64_MAX, &value, &ignored) == 0);
    *seed = (uint64_t)value;
    return true;
}

int config_input_check(const struct config_input *in, struct err *e) {
    bool sharded = config_input_is_sharded(in);
    const char *dealing = in->shard != CONFIG_SHARD_SIZE      ? "shard"
                          : in->unit != CONFIG_UNIT_FILE      ? "unit"
                          : strcmp(in->order, "name") != 0    ? "order"
                          : in->uneven != CONFIG_UNEVEN_ALLOW ? "uneven"
                                                              : NULL;
    if (!sharded && dealing)
        return err_set(e, ERR_CONFIG, "%s is for an input with mode = sharded", dealing);
    if (!sharded && in->replicas != REPLICAS_DEFAULT)
        return err_set(e, ERR_CONFIG, "replicas is for an input with mode = sharded");
    if (in->mode == CONFIG_SHARDED_BY_KEY && in->shard == CONFIG_SHARD_COUNT)
        return err_set(e, ERR_CONFIG, "ShardedByS3Key is shard = key, and shard is count");
    if (sharded && config_input_shard(in) == CONFIG_SHARD_SIZE && strcmp(in->order, "name") != 0)
        return err_set(e, ERR_CONFIG,
                       "order = %s needs shard = key or count: by size the order "
                       "does not matter",
                       in->order);
    if (!config_input_is_streamed(in) && (in->window != WINDOW_DEFAULT || in->cache_max))
        return err_set(e, ERR_CONFIG, "%s is for an input with deliver = stream",
                       in->cache_max ? "cache_max" : "window");
    const char *no_keep = config_input_is_streamed(in)     ? "deliver = stream leaves"
                          : in->unit == CONFIG_UNIT_SAMPLE ? "unit = sample leaves"
                                                           : NULL;
    if (in->on_change == CONFIG_CHANGE_KEEP && no_keep)
        return err_set(e, ERR_CONFIG,
                       "on_change = keep needs the files of earlier runs on the nodes, and %s none "
                       "there (try: refuse)",
                       no_keep);
    if (in->cache_max && in->cache_max < in->window)
        return err_set(e, ERR_CONFIG,
                       "cache_max has %lld bytes and window %lld: what is fetched ahead has to fit "
                       "into the cache",
                       (long long)in->cache_max, (long long)in->window);
    return 0;
}
