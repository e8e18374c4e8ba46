// SPDX-License-Identifier: Apache-2.0
// dtctl import: a job file of another tool, to a dtctl.toml.
#include "command.h"

#include "base/log.h"
#include "base/str.h"
#include "convert/convert.h"
#include "sys/file.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct import_flags {
    const char *to;
    bool force;
};

static const struct option_row ROWS[] = {
    {.flag = "to",
     .letter = 'o',
     .verbs = "import",
     .type = OPTION_PATH,
     .arg = "FILE",
     .offset = offsetof(struct import_flags, to),
     .marks = OPTION_NO_ENV,
     .help = "Write the configuration to this file; empty: to standard output."},
    {.flag = "force",
     .verbs = "import",
     .type = OPTION_BOOL,
     .text = "false",
     .offset = offsetof(struct import_flags, force),
     .marks = OPTION_NO_ENV,
     .help = "Replace the file of --to if there is one."},
};
static const struct option_table TABLE = {"Import", ROWS, sizeof ROWS / sizeof ROWS[0]};

static const char *format_words(struct arena *a) {
    struct strbuf text = {0};
    for (const struct convert_format *f = convert_formats; f->word; f++)
        strbuf_addf(&text, "%s%s", f == convert_formats ? "" : f[1].word ? ", " : " or ", f->word);
    const char *copy = arena_strdup(a, strbuf_cstr(&text));
    strbuf_fini(&text);
    return copy;
}

static void report(struct context *s, const struct convert_draft *d, const struct strbuf *text,
                   const char *to) {
    struct strbuf event = {0};
    struct json_out j;
    for (size_t i = 0; i < d->note_count; i++) {
        const struct convert_note *n = &d->notes[i];
        log_warn(n->from.line
                     ? arena_printf(s->arena, "%s:%d: %s: %s", d->file, n->from.line, n->from.name,
                                    n->text)
                     : arena_printf(s->arena, "%s: %s: %s", d->file, n->from.name, n->text),
                 "%s", "");
    }
    if (d->notes_left)
        log_warn(arena_printf(s->arena, "%s: %zu more fields have no equivalent", d->file,
                              d->notes_left),
                 "%s", "");
    screen_event(&event, &j, "imported");
    json_str(&j, "format", d->tool);
    json_str(&j, "file", d->file);
    json_str(&j, "to", *to ? to : NULL);
    json_int(&j, "settings", (int64_t)d->entry_count);
    json_strn(&j, "text", text->data, text->len);
    json_array(&j, "notes");
    for (size_t i = 0; i < d->note_count; i++) {
        json_object(&j, NULL);
        json_int(&j, "line", d->notes[i].from.line);
        json_str(&j, "name", d->notes[i].from.name);
        json_str(&j, "text", d->notes[i].text);
        json_end(&j);
    }
    json_end(&j);
    screen_event_end(s->screen, &event, &j);
}

static int write_to(struct context *s, const char *to, bool force, const struct strbuf *text,
                    struct err *e) {
    if (s->config->dry_run || !*to) {
        screen_out(s->screen, "%s", strbuf_cstr(text));
        return 0;
    }
    if (!file_is_absent(to) && !force)
        return err_set(e, ERR_EXISTS, "'%s' is there already (--force replaces it)", to);
    char target[PATH_MAX]; // a link stays, and the file that it names is replaced
    return file_write_atomic(realpath(to, target) ? target : to, text->data, text->len, 0644, e);
}

static int run(struct context *s, const struct cli_rest *rest, const void *flags, struct err *e) {
    const struct import_flags *f = flags;
    const struct convert_format *format = convert_find(rest->args[0]);
    struct convert_draft d = {
        .arena = s->arena, .tool = rest->args[0], .file = file_base(rest->args[1])};
    struct strbuf text = {0};
    char *bytes;
    size_t len;
    if (!format)
        return err_set(e, ERR_USAGE, "import takes %s, not '%.80s'", format_words(s->arena),
                       rest->args[0]);
    if (file_read_piped(s->arena, rest->args[1], CONVERT_TEXT_BYTES_MAX, &bytes, &len, e) < 0) {
        if (context_check(s, e) == 0)
            e->code = ERR_CONFIG;
        return -1;
    }
    if (len >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0) { // the mark of UTF-8
        bytes += 3;
        len -= 3;
    }
    int result = format->read(&d, bytes, len, e);
    if (result < 0)
        err_wrap(e, "%s", rest->args[1]);
    if (result == 0)
        result = convert_draft_write(&d, &text, e);
    if (result == 0)
        result = write_to(s, f->to, f->force, &text, e);
    if (result == 0) {
        report(s, &d, &text, f->to);
        screen_note(s->screen, "%zu setting%s, %zu remark%s%s", d.entry_count,
                    str_plural(d.entry_count), d.note_count + d.notes_left,
                    str_plural(d.note_count + d.notes_left),
                    *f->to ? "; next: dtctl config check" : "");
    }
    strbuf_fini(&text);
    return result;
}

static const char *const WORDS[] = {"sbatch", "sagemaker", "pcluster", "sky", NULL};

const struct command cmd_import = {
    .verb = {.name = "import",
             .summary = "make a dtctl.toml from a job file of another tool",
             .args = "sbatch|sagemaker|pcluster|sky FILE",
             .words = WORDS,
             .text = "Prints a dtctl.toml with the settings that FILE has equivalents for, each "
                     "with the line and the field that it comes from. Fields and lines "
                     "without an equivalent go to standard error and to the comment at the head, "
                     "with what to do instead. Nothing of FILE is run. sbatch: a batch script of "
                     "Slurm. sagemaker: the JSON of a "
                     "CreateTrainingJob request, or of aws sagemaker describe-training-job. "
                     "pcluster: config.yaml of AWS ParallelCluster 3. sky: a task of SkyPilot.",
             .examples = "dtctl import sbatch train.sbatch   # look\n"
                         "dtctl import sagemaker job.json -o dtctl.toml   # and keep\n"},
    .rows = &TABLE,
    .flags_bytes = sizeof(struct import_flags),
    .marks = COMMAND_ANY_CONFIG,
    .args_min = 2,
    .args_max = 2,
    .run = run,
};
