// SPDX-License-Identifier: Apache-2.0
// dtctl report: one run, or several with their differences, as a page of HTML.
#include "command.h"

#include "build_info.h"
#include "compare_show.h"
#include "run/inputs/input_from_run.h"
#include "run/report/report.h"
#include "sys/file.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RUNS_MAX = 1000 };

struct report_flags {
    const char *to;
};

static const struct option_row ROWS[] = {
    {.flag = "to",
     .letter = 'o',
     .verbs = "report",
     .type = OPTION_STRING,
     .arg = "FILE",
     .offset = offsetof(struct report_flags, to),
     .marks = OPTION_NO_ENV,
     .help = "Write the page to this file, which may replace another page; -: to standard output; "
             "empty: report.html in the run's folder, or for several runs compared.html in the "
             "folder of the first one."},
};
static const struct option_table TABLE = {"Report", ROWS, sizeof ROWS / sizeof ROWS[0]};

static int load_runs(struct report_page *p, const struct run *runs, size_t count, struct err *e) {
    for (size_t i = 0; i < count; i++)
        if (context_check(p->context, e) < 0 || report_load(p, &runs[i], e) < 0)
            return -1;
    return 0;
}

static void make_page(struct report_page *p, struct strbuf *page) {
    static const struct compare_flags none = {.sort = ""};
    struct comparison c = {
        .context = p->context, .flags = &none, .runs = p->compared, .count = p->count};
    struct compared_settings all;
    struct side_table settings, figures;
    compare_find_metrics(&c);
    compare_find_settings(&c, &all);
    compare_show_tables(&c, &all, &settings, &figures);
    report_write(p, DTCTL_VERSION, &settings, &figures, page);
}

static void show(const struct report_page *p, const char *path, size_t bytes) {
    struct strbuf text = {0};
    struct json_out j;
    uint64_t points = 0;
    for (size_t i = 0; i < p->series_count; i++)
        points += p->series[i].points;
    screen_event(&text, &j, "report");
    json_array(&j, "runs");
    for (size_t i = 0; i < p->count; i++)
        json_str(&j, NULL, p->compared[i].run.id);
    json_end(&j);
    json_str(&j, "file", path);
    json_int(&j, "bytes", (int64_t)bytes);
    json_int(&j, "points", (int64_t)points);
    json_array(&j, "problems");
    for (size_t i = 0; i < p->count; i++)
        for (size_t k = 0; k < p->compared[i].problem_count; k++)
            json_str(&j, NULL, p->compared[i].problems[k]);
    json_end(&j);
    screen_event_end(p->context->screen, &text, &j);
    screen_out(p->context->screen, p->context->config->dry_run ? "%s would be written\n" : "%s\n",
               path);
}

// Only a page is replaced: no device, no folder, and no other file, which a typing error may name.
static int check_target(const char *path, struct err *e) {
    char begin[sizeof REPORT_BEGIN - 1];
    struct stat is;
    struct err ignored;
    if (stat(path, &is) < 0)
        return 0;
    if (!S_ISREG(is.st_mode))
        return err_set(e, ERR_USAGE, "'%s' is there already, and is no file (try: -o FILE)", path);
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (is.st_size == 0 || (fd >= 0 && file_read_all(fd, begin, sizeof begin, &ignored) == 0 &&
                            memcmp(begin, REPORT_BEGIN, sizeof begin) == 0))
        return 0;
    return err_set(e, ERR_USAGE, "'%s' is there already, and is no report (try: another -o FILE)",
                   path);
}

static int print_page(struct report_page *p, struct err *e) {
    struct strbuf page = {0};
    make_page(p, &page);
    int result = file_write_all(STDOUT_FILENO, page.data, page.len, e);
    strbuf_fini(&page);
    return result;
}

static int write_page(struct report_page *p, const char *to, struct err *e) {
    struct context *s = p->context;
    struct strbuf page = {0};
    char target[PATH_MAX]; // a link that is given stays, and the file that it names is replaced
    const char *path = to[0] ? to
                             : run_path(&s->cluster, &p->compared[0].run,
                                        p->count == 1 ? "report.html" : "compared.html");
    if (str_eq(to, "-"))
        return print_page(p, e);
    path = to[0] && realpath(path, target) ? target : path;
    int result = to[0] ? check_target(path, e) : 0;
    if (result == 0)
        make_page(p, &page);
    if (result == 0 && !s->config->dry_run)
        result = file_write_atomic(path, page.data, page.len, 0600, e);
    if (result == 0)
        show(p, run_near_path(s->arena, path), page.len);
    else
        err_wrap(e, "cannot write the report");
    strbuf_fini(&page);
    return result;
}

static int run(struct context *s, const struct cli_rest *rest, const void *flags, struct err *e) {
    const struct report_flags *f = flags;
    struct run *runs = arena_new(s->arena, struct run, rest->count + 1);
    struct report_page p;
    size_t count = 0;
    for (size_t i = 0; i < rest->count || i == 0; i++) {
        const char *text = rest->count ? rest->args[i] : "";
        struct run r;
        if (input_from_run_named(s, text, &r, e) < 0 ||
            compare_add_run(runs, &count, &r, text, e) < 0)
            return -1;
    }
    report_init(&p, s, count);
    int result = load_runs(&p, runs, count, e);
    if (result == 0)
        result = write_page(&p, f->to, e);
    report_end(&p);
    return result;
}

const struct command cmd_report = {
    .verb = {.name = "report",
             .summary = "write a page with the outcome and the curves of runs",
             .args = "[RUN…]",
             .text =
                 "Writes one HTML file, smaller than 1 MB, and prints its path: outcome and reason "
                 "of a failure, time line, productive share of the time, curves of all metrics by "
                 "rank, nodes, data of each node, settings, events, and next steps where figures "
                 "support them. By default of the newest run. With several runs the page begins "
                 "with the settings in which they differ, and each plot has a curve for each run. "
                 "A spike of one value stays visible, however many values there are. The page has "
                 "no script and opens no connection. All of it comes from the files on this side, "
                 "also of a run that is not over.",
             .examples = "dtctl report   # the newest run\n"
                         "dtctl report small large -o both.html   # two tasks, one page\n"},
    .rows = &TABLE,
    .flags_bytes = sizeof(struct report_flags),
    .args_max = RUNS_MAX,
    .run = run,
};
