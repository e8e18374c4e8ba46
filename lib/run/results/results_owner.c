// SPDX-License-Identifier: Apache-2.0
// The owner of a results folder.
#include "run/results/results_owner.h"

#include "protocol/job_spec.h"
#include "sys/file.h"
#include "sys/file_entries.h"

#include <string.h>

const char *results_owner_of(struct arena *a, const char *dir) {
    struct err ignored = {0};
    char *text = NULL;
    size_t len = 0;
    if (file_read(a, file_join(a, dir, OWNER_MARK), JOB_RUN_BYTES_MAX + 1, &text, &len, &ignored) <
        0)
        return "";
    text[strcspn(text, "\n")] = 0;
    return str_is_name(text, JOB_RUN_BYTES_MAX) ? text : "";
}

bool results_owner_is_foreign(const char *dir) {
    struct file_entries in = file_entries_open(dir);
    bool foreign = false;
    while (!foreign && file_entries_next(&in))
        foreign = !str_starts(in.name, OWNER_MARK); // or what a killed writer of it left
    return file_entries_close(&in, 0, NULL) < 0 || foreign;
}

bool results_owner_is_here(struct arena *a, const struct run *run) {
    return run_is_over(run) && run->fetched &&
           str_eq(results_owner_of(a, run->output_dir), run->id);
}

bool results_owner_has_files(const char *dir) {
    struct file_entries in = file_entries_open(dir);
    bool found = false;
    while (!found && file_entries_next(&in))
        found = !str_eq(in.name, OWNER_MARK);
    return file_entries_close(&in, 0, NULL) < 0 || found;
}

int results_owner_set(const char *dir, const char *run, struct err *e) {
    struct arena a = {0};
    const char *line = arena_printf(&a, "%s\n", run);
    int result = file_make_dirs(dir, 0755, e);
    if (result == 0)
        result = file_write_atomic(file_join(&a, dir, OWNER_MARK), line, strlen(line), 0644, e);
    arena_fini(&a);
    return result;
}
