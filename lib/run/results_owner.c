// SPDX-License-Identifier: Apache-2.0
// The owner of a results folder.
#include "run/results_owner.h"

#include "protocol/job_spec.h"
#include "sys/file.h"

#include <dirent.h>
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
    DIR *d = opendir(dir);
    bool foreign = false;
    for (struct dirent *entry; d && !foreign && (entry = readdir(d));)
        foreign = strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
                  !str_starts(entry->d_name, OWNER_MARK); // or what a killed writer of it left
    if (d)
        closedir(d);
    return foreign;
}

bool results_owner_is_here(struct arena *a, const struct run *run) {
    return run_is_over(run) && run->fetched &&
           str_eq(results_owner_of(a, run->output_dir), run->id);
}

bool results_owner_has_files(const char *dir) {
    DIR *d = opendir(dir);
    bool found = false;
    for (struct dirent *entry; d && !found && (entry = readdir(d));)
        found = !str_eq(entry->d_name, ".") && !str_eq(entry->d_name, "..") &&
                !str_eq(entry->d_name, OWNER_MARK);
    if (d)
        closedir(d);
    return found;
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
